package status

import (
	"io"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// writeOutdated says which pods are older than they should be; nothing if none is.
func writeOutdated(out io.Writer, cacheNode *v1alpha1.CacheNode) {
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionOutdated)
	if c == nil || c.Status != "True" {
		return
	}
	say(out, "%s=%s (%s): %d of %d pods: %s", c.Type, c.Status, c.Reason,
		cacheNode.Status.OutdatedPods, len(cacheNode.Status.Pods), c.Message)
}
