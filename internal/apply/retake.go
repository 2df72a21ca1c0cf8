package apply

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// repairer is the field manager of the replacement in retake; it owns nothing afterwards.
const repairer = naming.FieldManager + "-repair"

// retake is for a hand edit that server-side apply cannot undo: somebody changed the key of an element of one of our
// lists, such as a Service's port, and now owns it as another element, beside which ours is refused. A merge patch
// replaces such lists as a whole; then its fields are handed over to our own manager, so that what later goes out of
// desired goes out of the object too.
func retake(ctx context.Context, c client.Client, want *unstructured.Unstructured) error {
	text, err := json.Marshal(want.Object)
	if err != nil {
		return err
	}
	live := want.DeepCopy()
	if err := c.Patch(ctx, live, client.RawPatch(types.MergePatchType, text), client.FieldOwner(repairer)); err != nil {
		return err
	}
	handOver, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(repairer), naming.FieldManager)
	if err != nil || handOver == nil {
		return err
	}
	return c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, handOver))
}
