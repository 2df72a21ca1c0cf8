package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// age describes the parts of a pod that are older than they should be.
type age struct {
	// agent is true if the agent is older than this operator. unsafe is true if the agent is older than the fix of a
	// security hole.
	agent, unsafe bool
	// skewed is the agent's version if that version is too far from the version of this operator; "" otherwise.
	skewed string
	// nginx is the version of nginx if that version has known security holes; "" otherwise.
	nginx string
}

// ageOf returns the parts of a pod that are too old according to its report. operator is the version of this
// operator. Without a report, it returns the zero value.
func ageOf(r *agentapi.Report, operator string) (a age) {
	if r == nil {
		return a
	}
	a.agent = r.Renderer < agentapi.Renderer
	a.unsafe = r.Renderer < agentapi.SecureRenderer
	if agentapi.IsSkewed(operator, r.AgentVersion) {
		a.skewed = r.AgentVersion
	}
	if agentapi.IsOldNginx(r.NginxVersion) {
		a.nginx = r.NginxVersion
	}
	return a
}

// String returns a description of the parts that are too old; "" if no part is too old.
func (a age) String() string {
	var list []string
	switch {
	case a.unsafe:
		list = append(list, "the agent lacks a security fix")
	case a.agent:
		list = append(list, "the agent is older than the operator")
	}
	if a.skewed != "" {
		list = append(list, fmt.Sprintf("the agent is %s, too far from the operator's version", a.skewed))
	}
	if a.nginx != "" {
		list = append(list, fmt.Sprintf("nginx is %s, and older than %s", a.nginx, agentapi.MinNginx))
	}
	return strings.Join(list, "; ")
}

// outdatedPods returns the number of pods of which some part is too old.
func outdatedPods(pods []v1alpha1.PodStatus) (n int32) {
	for _, p := range pods {
		if p.Outdated != "" {
			n++
		}
	}
	return n
}

// agedPods contains lists of pods, one list for each part that can be too old. In skewed and nginx, each name is
// followed by the version.
type agedPods struct {
	unsafe, skewed, old, nginx []string
	// ending are pods that are being deleted; the operator does not ask their agents. unknown are pods whose agents have
	// not answered.
	ending, unknown []string
}

// agedPods returns the pods in which some part is too old, and the pods about which nothing is known. Each list is
// sorted by name.
func (f Facts) agedPods() (found agedPods) {
	byName := func(a, b Pod) int { return strings.Compare(a.Name, b.Name) }
	for _, p := range slices.SortedFunc(slices.Values(f.Pods), byName) {
		a := ageOf(p.Report, f.Version)
		switch {
		case !p.DeletionTimestamp.IsZero():
			found.ending = append(found.ending, p.Name)
			continue
		case p.Report == nil:
			found.unknown = append(found.unknown, p.Name)
			continue
		case a.unsafe:
			found.unsafe = append(found.unsafe, p.Name)
		case a.agent:
			found.old = append(found.old, p.Name)
		}
		if a.skewed != "" {
			found.skewed = append(found.skewed, fmt.Sprintf("%s (%s)", p.Name, a.skewed))
		}
		if a.nginx != "" {
			found.nginx = append(found.nginx, fmt.Sprintf("%s (%s)", p.Name, a.nginx))
		}
	}
	return found
}

// outdated sets Outdated. A pod whose agent has not answered this operator counts as neither old nor new. So the
// condition stays as it was until the agents of all ready pods have answered or count as silent. The operator does not
// ask the agent of a pod that is being deleted. Such a pod may be the last outdated pod, and it serves until it is
// gone. So the condition is not cleared before the pod is gone.
func (l *conditionList) outdated() {
	if l.isEarly() {
		return
	}
	found := l.agedPods()
	reason, messages := v1alpha1.ReasonAsExpected, []string{}
	note := func(why, what string, pods []string, remedy string) {
		if len(pods) == 0 {
			return
		}
		if reason == v1alpha1.ReasonAsExpected {
			reason = why
		}
		messages = append(messages, what+": "+listedBy(pods, ", ")+remedy)
	}
	restart := "; to replace the pods one by one, set the annotation " + v1alpha1.AnnotationRestart + " to a new value"
	if l.Problem != nil && !l.Problem.Accepted {
		restart += ", and make the spec acceptable: until then, no pod is replaced"
	}
	note(v1alpha1.ReasonSecurityFix, "agents that lack a security fix", found.unsafe, restart)
	newer := "; name a newer image in spec.pod.image"
	if effective.NamedImage(l.CacheNode.Spec.Pod) == "" { // new pods get the operator's image
		newer = restart + ": they get " + l.NginxImage + "; if that is no newer one, the chart's nginxImage names another"
	}
	note(v1alpha1.ReasonNginxTooOld,
		"nginx older than "+agentapi.MinNginx+", which has security holes", found.nginx, newer)
	note(v1alpha1.ReasonVersionSkew, "agents more than one minor version from the operator ("+l.Version+
		"), with which it is not tested", found.skewed, restart)
	note(v1alpha1.ReasonAgentOutdated, "agents older than the operator", found.old, restart)
	before := meta.FindStatusCondition(l.CacheNode.Status.Conditions, v1alpha1.ConditionOutdated)
	if len(messages) == 0 && before != nil && before.Status == metav1.ConditionTrue {
		note(before.Reason, "terminating pods, which may be the old ones", found.ending, "")
	}
	if len(messages) == 0 {
		messages = []string{"every pod has a recent agent and a recent nginx"}
		if len(found.unknown) > 0 {
			messages[0] += ", but for those whose agents have not answered: " + listedBy(found.unknown, ", ")
		}
	}
	l.set(v1alpha1.ConditionOutdated, reason != v1alpha1.ReasonAsExpected, reason,
		truncated(strings.Join(messages, "; "), maxMessage))
}
