package status

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// writeOutdated prints which pods run an agent or an nginx that is older than it should be. If there are no such pods,
// it prints nothing. Pods that terminate do not count.
func writeOutdated(out io.Writer, cacheNode *v1alpha1.CacheNode) {
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionOutdated)
	if c == nil || c.Status != "True" {
		return
	}
	count := ""
	if n := cacheNode.Status.OutdatedPods; n > 0 {
		count = fmt.Sprintf("%d of %d pods: ", n, len(cacheNode.Status.Pods))
	}
	say(out, "%s=%s (%s): %s%s", c.Type, c.Status, c.Reason, count, c.Message)
}
