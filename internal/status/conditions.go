package status

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// SpecIsValid is the beginning of the message of Accepted=True. If there are warnings, they come after it, separated by
// semicolons.
const SpecIsValid = "the spec is valid"

// conditionList collects the conditions for one generation of the spec.
type conditionList struct {
	Facts
	ready int32
	items []metav1.Condition
}

func (l *conditionList) set(kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	l.items = append(l.items, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: l.CacheNode.Generation,
	})
}

// conditions returns the conditions that follow from the facts. The conditions must distinguish three cases. In the
// first case, the spec is refused and the old pods go on. In the second case, pods are being created or replaced. In
// the third case, pods are missing although no change is in progress.
func conditions(f Facts, ready int32) []metav1.Condition {
	l := &conditionList{Facts: f, ready: ready}
	allReady := f.areReady(ready)
	progressing := f.Problem == nil && f.Failure == nil && f.refusal() == nil && f.isProgressing(allReady)
	text := fmt.Sprintf("%d of %d pods are ready", f.wantedReady(ready), f.wanted())
	if progressing && f.Config != nil {
		text = l.rollingOut()
	}
	pods := strings.Join(append([]string{text}, f.heldUp()...), "; ")

	l.accepted()
	l.available()
	l.progressing(progressing)
	l.degraded((!progressing && f.StatefulSet != nil && !allReady) || len(f.heldUp()) > 0, pods)
	l.outdated()
	l.evictions()
	switch refusal := f.refusal(); {
	case f.Problem != nil:
		l.notAccepted(f.Problem)
	case refusal != nil:
		l.set(v1alpha1.ConditionReady, false, v1alpha1.ReasonConfigRefused, "the pods go on with revision "+f.Rollout.Stable)
		l.set(v1alpha1.ConditionStalled, true, v1alpha1.ReasonConfigRefused, describeRefusal(refusal))
		l.set(v1alpha1.ConditionReconciling, false, v1alpha1.ReasonConfigRefused, "the spec must be edited")
	case f.Failure != nil:
		l.failing()
	case progressing:
		l.waiting(v1alpha1.ReasonRollingOut, pods)
	case !allReady:
		l.waiting(v1alpha1.ReasonPodsNotReady, pods)
	default:
		l.set(v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, pods+" and run what the spec asks for"+f.alsoSurplus())
		l.set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonAsExpected, "nothing is wrong")
		l.set(v1alpha1.ConditionReconciling, false, v1alpha1.ReasonReady, "nothing to reconcile")
	}
	return l.items
}

// accepted sets Accepted, and adds warnings about values that are valid but unwise.
func (l *conditionList) accepted() {
	if l.Problem == nil || l.Problem.Accepted {
		message := strings.Join(slices.Concat([]string{SpecIsValid}, l.Warnings, l.smallDisks()), "; ")
		l.set(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, message)
		return
	}
	l.set(v1alpha1.ConditionAccepted, false, l.Problem.Reason, l.Problem.Message)
}

func (l *conditionList) available() {
	switch {
	case l.ready > 0:
		l.set(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonPodsReady, "at least one pod is ready")
	case l.wanted() == 0:
		l.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonScaledToZero, "spec.replicas is 0")
	default:
		l.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonNoPodReady, "no pod is ready")
	}
}

func (l *conditionList) progressing(is bool) {
	switch {
	case is:
		message := l.rollingOut()
		if l.Movement != nil {
			message += "; " + DescribeMovement(l.Movement)
		}
		if l.Evicting != "" {
			message += "; " + l.Evicting
		}
		l.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, message)
	case l.Problem != nil && l.Problem.Accepted:
		l.set(v1alpha1.ConditionProgressing, true, l.Problem.Reason, l.Problem.Message)
	case l.Problem != nil:
		l.set(v1alpha1.ConditionProgressing, false, l.Problem.Reason, "the spec is not accepted: nothing is rolled out")
	case l.Failure != nil:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonApplyFailed,
			"the operator fails and tries again; see Degraded")
	case l.refusal() != nil:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonConfigRefused, "revision "+l.revision()+" was rolled back")
	default:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolledOut, "every pod runs revision "+l.revision())
	}
}

// rollingOut returns a text about the progress of the rollout.
func (l *conditionList) rollingOut() string {
	text := fmt.Sprintf("revision %s: %d of %d pods run it, %d are ready",
		l.revision(), l.running(), l.wanted(), l.wantedReady(l.ready))
	replacing := ""
	if l.Rollout != nil {
		replacing = l.Rollout.Replacing
	}
	for _, p := range l.Pods {
		if !p.DeletionTimestamp.IsZero() && !l.isSurplus(p) {
			replacing = p.Name
		}
	}
	if replacing != "" {
		text += ", " + replacing + " is being replaced"
	}
	if !l.routing().ownersAreKnown() {
		text += ", not all know yet who owns which keys"
	}
	return text + l.alsoSurplus()
}

// degraded sets Degraded to the worst of the current problems. stuck is true if pods do not start, or if pods are
// missing although no change is in progress. The parameter pods is a text about these pods.
func (l *conditionList) degraded(stuck bool, pods string) {
	failed, missing := l.outOfUse().failed(), l.outOfUse().placeholders()
	silent, lowered := l.silentAgents(), l.loweredLimits()
	if l.Evicting != "" && l.Rollout != nil && l.Rollout.Done && l.Rollout.Replacing == "" {
		failed = append([]string{l.Evicting}, failed...)
	}
	reason, message := l.mildest()
	certificate, isExpired, _ := l.expiry()
	switch refusal := l.refusal(); {
	case l.Failure != nil:
		reason, message = v1alpha1.ReasonApplyFailed, truncated(l.Failure.Error(), maxMessage)
	case l.Lost != "":
		reason, message = v1alpha1.ReasonNodeLost, l.Lost
	case refusal != nil:
		reason, message = v1alpha1.ReasonConfigRefused, describeRefusal(refusal)
	case isExpired:
		reason, message = v1alpha1.ReasonCertificateExpired, certificate
	case l.TooManyVolumes != "":
		reason, message = v1alpha1.ReasonTooManyVolumes, l.TooManyVolumes
	case stuck:
		reason, message = v1alpha1.ReasonPodsNotReady, pods
	case len(missing) > 0:
		reason, message = v1alpha1.ReasonDiskMissing, Listed(append(missing, failed...))
	case len(failed) > 0:
		reason, message = v1alpha1.ReasonDiskFailed, Listed(failed)
	case len(l.Unmet) > 0:
		reason, message = v1alpha1.ReasonReferenceMissing, ""
	case len(lowered) > 0:
		reason, message = v1alpha1.ReasonLimitsLowered, Listed(lowered)
	case len(l.routing().oldAgents()) > 0:
		reason, message = v1alpha1.ReasonAgentTooOld, "the agents of "+Listed(l.routing().oldAgents())+
			" do not know routing.mode Sharded: these pods own no keys; delete them, one after another"
	case len(silent) > 0:
		reason, message = v1alpha1.ReasonAgentUnreachable, "no answer from the agents of "+Listed(silent)
	}
	if len(l.Unmet) > 0 {
		message = strings.TrimPrefix(message+"; "+Listed(l.Unmet), "; ")
	}
	l.set(v1alpha1.ConditionDegraded, reason != v1alpha1.ReasonAsExpected, reason, truncated(message, maxMessage))
}

// mildest returns the reason and the message of Degraded if there is no worse problem. Either the certificate expires
// soon, or nothing is wrong.
func (l *conditionList) mildest() (reason, message string) {
	if certificate, _, _ := l.expiry(); certificate != "" {
		return v1alpha1.ReasonCertificateExpires, certificate
	}
	return v1alpha1.ReasonAsExpected, "nothing is wrong"
}

// notAccepted sets the conditions for a spec that is not accepted. Either a person must edit the spec, or an object to
// which the spec refers must be created.
func (l *conditionList) notAccepted(p *Problem) {
	if !p.Stalled {
		l.waiting(p.Reason, p.Message)
		return
	}
	l.set(v1alpha1.ConditionReady, false, p.Reason, "the spec is not accepted; the pods go on with what was accepted last")
	l.set(v1alpha1.ConditionStalled, true, p.Reason, p.Message)
	l.set(v1alpha1.ConditionReconciling, false, p.Reason, "the spec must be edited")
}

// waiting sets the conditions for a CacheNode that will become ready without an edit of its spec.
func (l *conditionList) waiting(reason, message string) {
	l.set(v1alpha1.ConditionReady, false, reason, message)
	l.set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonAsExpected, "no edit of the spec is needed")
	l.set(v1alpha1.ConditionReconciling, true, reason, message)
}

func (l *conditionList) failing() {
	l.waiting(v1alpha1.ReasonApplyFailed, "the operator fails and tries again; see Degraded")
}

func describeRefusal(r *agentapi.Refusal) string {
	return fmt.Sprintf("%s refused revision %s, which was rolled back: %s", r.Pod, r.Revision, r.Message)
}

// areReady returns true if all pods are ready. It checks both the StatefulSet and the pods, because the operator's
// cache may show their changes at different times.
func (f Facts) areReady(ready int32) bool {
	return f.StatefulSet != nil && ready == f.replicas() && !slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return p.DeletionTimestamp.IsZero() && !storage.IsReady(p.Pod)
	})
}

// isProgressing returns true while the StatefulSet controller creates, replaces or removes pods, or while some pods
// have not taken the revision yet. After that, it returns true until all pods are ready and know which pod owns which
// keys. If pods become unready or the owners change later, isProgressing still returns false.
func (f Facts) isProgressing(allReady bool) bool {
	if f.Rollout == nil || !f.Rollout.Settled || f.Rollout.Remaking || !f.Rollout.Done ||
		f.Rollout.Replacing != "" || !isRolledOut(f.StatefulSet) {
		return true
	}
	old := meta.FindStatusCondition(f.CacheNode.Status.Conditions, v1alpha1.ConditionProgressing)
	return (!allReady || !f.routing().ownersAreKnown()) && (old == nil || old.Status == metav1.ConditionTrue)
}

// isRolledOut returns true if the StatefulSet controller has seen the wanted template and has created all wanted pods
// from it. The pods do not have to be ready.
func isRolledOut(set *appsv1.StatefulSet) bool {
	if set == nil || set.Status.ObservedGeneration < set.Generation {
		return false
	}
	want := ptr.Deref(set.Spec.Replicas, 1)
	return set.Status.Replicas == want && UpdatedPods(set) == want
}

// UpdatedPods returns the number of pods that were created from the wanted template; 0 while the StatefulSet
// controller has not seen the template.
func UpdatedPods(set *appsv1.StatefulSet) int32 {
	if set == nil || set.Status.ObservedGeneration < set.Generation {
		return 0
	}
	return set.Status.UpdatedReplicas
}

func (f Facts) revision() string {
	if f.Config == nil {
		return ""
	}
	return f.Config.Revision
}

// running returns the number of wanted pods that run the wanted revision.
func (f Facts) running() int {
	n := 0
	for _, p := range f.Pods {
		if !f.isSurplus(p) && p.Report != nil && p.Report.Revision == f.revision() {
			n++
		}
	}
	return n
}
