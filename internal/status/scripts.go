package status

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// withoutScripts returns a text that names the pods whose nginx lacks the module for scripts, and what does not work
// without this module.
func (f Facts) withoutScripts() []string {
	if !ptr.Deref(sites.Own(f.CacheNode.Spec).Cache.Lock.Enabled, true) {
		return nil
	}
	var pods []string
	for _, p := range f.Pods {
		if p.Report != nil && slices.Contains(p.Report.Features, agentapi.FeatureNoScripts) {
			pods = append(pods, p.Name)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	slices.Sort(pods)
	lost := "requests for what may not be stored wait for each other (no hit-for-miss)"
	if sites.Own(f.CacheNode.Spec).Cache.Slice != nil {
		lost += ", and files of which the origin's servers have different ETags stay cut"
	}
	return []string{truncated(fmt.Sprintf("%s, because nginx lacks ngx_http_js_module: an image of nginx whose name does "+
		"not end in -slim has it; pods: %s", lost, listedBy(pods, ", ")), 512)}
}
