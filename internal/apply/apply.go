// Package apply writes the operator's objects by server-side apply with one field manager. It writes only if a write
// would change something. In a steady state, it only reads from the API server.
//
// It imports naming only. Code that all written objects need, whatever their kind, goes here.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Outcome is what Apply did.
type Outcome string

// Outcomes of Apply.
const (
	Unchanged Outcome = "unchanged"
	Created   Outcome = "created"
	Updated   Outcome = "updated"
)

// Applier applies objects. It is safe for concurrent use if its client and Live are safe for concurrent use.
type Applier struct {
	client.Client
	// Live reads from the API server. The client's cache may contain only our own objects, so an object that is missing
	// in the cache may still exist.
	Live client.Reader
	// Absent returns true for an object that did not exist when the pass decided what to apply. A nil Absent means that
	// no object is known to have been absent.
	Absent func(client.Object) bool
}

// ErrStale means that the client's cache has not yet seen the creation or deletion of an object. Decisions that were
// made without that object must be made again.
var ErrStale = errors.New("the informer cache lags behind")

// TakenError means that an object with a wanted name exists and belongs to somebody else. Server-side apply with
// force would take that object over. The object would then be deleted together with our owner.
type TakenError struct{ Kind, Name string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s %q exists and is not the operator's", e.Kind, e.Name)
}

// Apply makes the object on the API server match desired. Fields that desired does not mention are left to others. If
// the cache already shows the wanted object, Apply sends nothing. It returns the object as the API server stores it. An
// object that belongs to somebody else is left alone and reported as a [TakenError]. An object that the cache does not
// contain is created; the API server creates it only if it does not exist. The error is [ErrStale] in three cases. The
// cache lacks an object of ours that exists. The cache still shows an object that is gone. Absent returns true for an
// object that the cache shows.
//
// No write is needed if two facts hold. First, the hash on the live object equals the hash of desired, so desired has
// lost no field since the last write. Second, the live object contains every field of desired with the same value, so
// nobody has changed such a field by hand.
func (a Applier) Apply(ctx context.Context, desired client.Object) (*unstructured.Unstructured, Outcome, error) {
	want, err := toUnstructured(desired)
	if err != nil {
		return nil, "", err
	}
	live, err := get(ctx, a.Client, desired)
	if err != nil {
		return nil, "", err
	}
	if live == nil {
		created, err := create(ctx, a.Client, want)
		if err == nil {
			return created, Created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, "", fmt.Errorf("create %s %s: %w", want.GetKind(), want.GetName(), err)
		}
		if live, err = a.unseen(ctx, desired); err != nil {
			return nil, "", err
		}
	} else if a.Absent != nil && a.Absent(desired) {
		return nil, "", fmt.Errorf("%s %s: %w", want.GetKind(), want.GetName(), ErrStale)
	}
	if !isOurs(live, desired) {
		return nil, "", &TakenError{Kind: want.GetKind(), Name: want.GetName()}
	}
	if contains(live.Object, want.Object) {
		return live, Unchanged, nil
	}
	applied, err := a.update(ctx, live, want)
	if err != nil {
		return nil, "", fmt.Errorf("apply %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	return applied, Updated, nil
}

// unseen reads an object that exists and is missing in the cache. If the object has the label by which the cache
// selects objects, the cache lags behind. Otherwise the object belongs to somebody else, or somebody has removed the
// label.
func (a Applier) unseen(ctx context.Context, desired client.Object) (*unstructured.Unstructured, error) {
	live, err := get(ctx, a.Live, desired)
	if err != nil {
		return nil, err
	}
	if live == nil || (isOurs(live, desired) && live.GetLabels()[naming.LabelManagedBy] == naming.FieldManager) {
		return nil, fmt.Errorf("%s %s: %w", desired.GetObjectKind().GroupVersionKind().Kind, desired.GetName(), ErrStale)
	}
	return live, nil
}

// update applies want over the live object. If the API server refuses want although want was applied before, somebody
// has edited the live object by hand. update then undoes the edit by [retake] and applies want again.
func (a Applier) update(
	ctx context.Context, live, want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if err := a.takeFromCreation(ctx, want); err != nil {
		return nil, err
	}
	applied, err := send(ctx, a.Client, want)
	if IsRefused(err) && wasApplied(live, want) && retake(ctx, a.Client, want) == nil {
		applied, err = send(ctx, a.Client, want)
	}
	return applied, err
}

// wasApplied returns true if want is the object that was applied last.
func wasApplied(live, want client.Object) bool {
	return live.GetAnnotations()[naming.AnnotationApplied] == want.GetAnnotations()[naming.AnnotationApplied]
}

// Check asks the API server, by a dry run, whether it would accept the object. It does so only if the object differs
// from the one that was applied last. A hand edit of the live object does not count as a difference, because the API
// server has accepted our object before. Check changes nothing except the owners of fields. An object that belongs to
// somebody else is reported as a [TakenError].
func (a Applier) Check(ctx context.Context, desired client.Object) error {
	want, err := toUnstructured(desired)
	if err != nil {
		return err
	}
	live, err := get(ctx, a.Client, desired)
	if err != nil {
		return err
	}
	if live == nil {
		if _, err = create(ctx, a.Client, want, client.DryRunAll); !apierrors.IsAlreadyExists(err) {
			return err
		}
		if live, err = a.unseen(ctx, desired); err != nil {
			return err
		}
	}
	if !isOurs(live, desired) {
		return &TakenError{Kind: want.GetKind(), Name: want.GetName()}
	}
	if wasApplied(live, want) {
		return nil
	}
	if err := a.takeFromCreation(ctx, want); err != nil { // otherwise, fields that are no longer wanted stay
		return err
	}
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want),
		client.FieldOwner(naming.FieldManager), client.ForceOwnership, client.DryRunAll)
}

// isOurs returns true for an object with the same controller as desired. It also returns true for an object that we
// applied and that has lost its controller. That loss is a hand edit, which is repaired like any other.
func isOurs(live, desired client.Object) bool {
	if controller := metav1.GetControllerOf(live); controller != nil {
		if wanted := metav1.GetControllerOf(desired); wanted != nil {
			return wanted.UID == controller.UID
		}
		// If desired names no controller, the object must outlive its CacheNode. The live object can still be ours if its
		// controller is this CacheNode.
		instance := desired.GetLabels()[naming.LabelInstance]
		if desired.GetNamespace() == "" || controller.Kind != "CacheNode" || controller.Name != instance {
			return false
		}
	}
	// An object without a namespace has no owner. Its labels name the CacheNode to which it belongs.
	for _, label := range []string{naming.LabelNamespace, naming.LabelInstance} {
		if want, ok := desired.GetLabels()[label]; ok && desired.GetNamespace() == "" && live.GetLabels()[label] != want {
			return false
		}
	}
	return live.GetAnnotations()[naming.AnnotationApplied] != ""
}

// create creates the object and returns it as the API server stores it. Server-side apply would also create it. But
// server-side apply would also change an object that somebody else has created in the meantime.
func create(
	ctx context.Context, c client.Client, want *unstructured.Unstructured, options ...client.CreateOption,
) (*unstructured.Unstructured, error) {
	object := want.DeepCopy()
	return object, c.Create(ctx, object, append(options, client.FieldOwner(naming.FieldManager))...)
}

// send applies the object and returns it as the API server stores it.
func send(ctx context.Context, c client.Client, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := want.DeepCopy()
	return object, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(naming.FieldManager), client.ForceOwnership)
}

// get reads the live object as its Go type, so that the client does not start a second cache for unstructured objects.
// It returns nil if the object does not exist.
func get(ctx context.Context, c client.Reader, desired client.Object) (*unstructured.Unstructured, error) {
	object := desired.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(desired), object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: content}
	live.SetGroupVersionKind(desired.GetObjectKind().GroupVersionKind()) // a typed object does not contain it
	return live, nil
}

// Content returns an object without its status, and without the nulls to which Go types convert unset fields.
func Content(object client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	prune(content)
	return content, nil
}

// toUnstructured returns the content of an object, with the hash of that content in an annotation.
func toUnstructured(desired client.Object) (*unstructured.Unstructured, error) {
	content, err := Content(desired)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(content) // sorts the keys
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	u := &unstructured.Unstructured{Object: content}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[naming.AnnotationApplied] = hex.EncodeToString(sum[:8])
	u.SetAnnotations(annotations)
	return u, nil
}

// prune removes the nulls to which Go types convert unset fields. Empty objects stay, because an empty selector
// selects everything.
func prune(object map[string]any) {
	for key, value := range object {
		switch v := value.(type) {
		case nil:
			delete(object, key)
		case map[string]any:
			prune(v)
		case []any:
			for _, element := range v {
				if m, ok := element.(map[string]any); ok {
					prune(m)
				}
			}
		}
	}
}

// IsRefused returns true for an error that means that the object itself is wrong, so that a retry cannot help.
func IsRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
