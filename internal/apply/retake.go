package apply

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// repairer is the field manager of the merge patch in retake. After retake, it owns no fields.
const repairer = naming.FieldManager + "-repair"

// retake undoes a hand edit that server-side apply cannot undo. In such an edit, somebody changed the merge key of an
// element in one of our lists, such as a port of a Service. The edited element now belongs to that person, and the
// API server refuses our element beside it. A merge patch replaces such a list as a whole. Then retake makes our own
// field manager the owner of the patched fields. So if want later lacks one of these fields, server-side apply
// removes the field from the object.
func retake(ctx context.Context, c client.Client, want *unstructured.Unstructured) error {
	text, err := json.Marshal(want.Object)
	if err != nil {
		return err
	}
	live := want.DeepCopy()
	if err := c.Patch(ctx, live, client.RawPatch(types.MergePatchType, text), client.FieldOwner(repairer)); err != nil {
		return err
	}
	return handOver(ctx, c, live, repairer)
}

// takeFromCreation makes server-side apply the owner of the fields that were set when the object was created.
// Otherwise, a field that desired no longer contains would stay in the object. The owners of fields are read from the
// API server, because the cache does not store them.
func (a Applier) takeFromCreation(ctx context.Context, desired client.Object) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(desired.GetObjectKind().GroupVersionKind())
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
		if apierrors.IsNotFound(err) {
			return ErrStale
		}
		return err
	}
	return handOver(ctx, a.Client, live, naming.FieldManager)
}

// handOver makes our server-side apply the owner of the fields that a field manager owns through creates and updates.
// from is the name of this field manager.
func handOver(ctx context.Context, c client.Client, live client.Object, from string) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(from), naming.FieldManager)
	if err != nil || patch == nil {
		return err
	}
	return c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch))
}
