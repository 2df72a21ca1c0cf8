package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prune deletes objects of the given kinds that the owner controls and keep does not want. It reads from the client's
// cache, and deletes only the very object that it saw. It returns what it deleted.
func Prune(ctx context.Context, c client.Client, owner client.Object, kinds []client.Object, selector client.MatchingLabels, keep func(client.Object) bool) ([]client.Object, error) {
	var deleted []client.Object
	for _, kind := range kinds {
		list, err := newList(c, kind.GetObjectKind().GroupVersionKind())
		if err != nil {
			return deleted, err
		}
		if err := c.List(ctx, list, client.InNamespace(owner.GetNamespace()), selector); err != nil {
			return deleted, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return deleted, err
		}
		for _, item := range items {
			object := item.(client.Object)
			object.GetObjectKind().SetGroupVersionKind(kind.GetObjectKind().GroupVersionKind())
			if !metav1.IsControlledBy(object, owner) || object.GetDeletionTimestamp() != nil || keep(object) {
				continue
			}
			err := c.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				return deleted, fmt.Errorf("delete %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
			}
			deleted = append(deleted, object)
		}
	}
	return deleted, nil
}

// newList makes an empty list of a kind with Go's type, so that the typed cache serves it.
func newList(c client.Client, kind schema.GroupVersionKind) (client.ObjectList, error) {
	kind.Kind += "List"
	object, err := c.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	return object.(client.ObjectList), nil
}
