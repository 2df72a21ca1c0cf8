package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Stuck tells whether a pod has been on a node for longer than patience without getting as far as running, and when to look
// again if not; 0 for never. It says nothing of the cause.
func Stuck(pod *corev1.Pod, patience time.Duration, now time.Time) (stuck bool, after time.Duration) {
	if patience == 0 || !pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName == "" || IsReady(pod) {
		return false, 0
	}
	scheduled := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			scheduled = c.LastTransitionTime.Time
		}
		if c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue { // all volumes were mounted
			return false, 0
		}
	}
	if left := patience - now.Sub(scheduled); left > 0 {
		return false, left + time.Second
	}
	return true, 0
}

// staleEvent is after how long without a repetition an event says nothing more. The kubelet tries a mount again after 2
// minutes at the latest.
const staleEvent = 5 * time.Minute

// Blamed are the disks that keep a pod from starting, with what the kubelet or the container runtime says of them. Both name
// the volume: the kubelet in events such as "MountVolume.SetUp failed for volume "x"", the runtime in the path that it
// cannot look at.
func Blamed(pod *corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim, events []corev1.Event, now time.Time) map[string]string {
	var messages []string
	for _, e := range events {
		last := e.LastTimestamp.Time
		if e.Series != nil {
			last = e.Series.LastObservedTime.Time
		}
		if last.IsZero() {
			last = e.EventTime.Time
		}
		if e.InvolvedObject.UID == pod.UID && (e.Reason == "FailedMount" || e.Reason == "Failed") && now.Sub(last) < staleEvent {
			messages = append(messages, e.Message)
		}
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if c.State.Waiting != nil {
				messages = append(messages, c.State.Waiting.Message)
			}
		}
	}
	blamed := map[string]string{}
	for disk, claim := range claims {
		if claim.Spec.VolumeName == "" {
			continue
		}
		for _, m := range messages {
			if strings.Contains(m, `"`+claim.Spec.VolumeName+`"`) || strings.Contains(m, "/"+claim.Spec.VolumeName+`"`) || strings.Contains(m, "/"+claim.Spec.VolumeName+`\"`) {
				blamed[disk] = m
			}
		}
	}
	return blamed
}

// IsPlaceholder is true for a claim that has a placeholder for a volume.
func IsPlaceholder(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && claim.Spec.VolumeName == naming.Placeholder(claim.Namespace, claim.Name)
}

// Missing is a disk whose place a placeholder has.
type Missing struct {
	PodDisk
	Claim *corev1.PersistentVolumeClaim
	// Node is the node.
	Node string
	// Since is when the placeholder was made.
	Since time.Time
}

// MissingDisks are those that placeholders stand in for.
func MissingDisks(s State) []Missing {
	var list []Missing
	for ordinal := range s.replicas() {
		name := naming.Pod(s.CacheNode.Name, ordinal)
		claims := s.ClaimsOf(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			claim := claims[disk]
			volume := s.Volumes[claim.Spec.VolumeName]
			if !IsPlaceholder(claim) || volume == nil {
				continue
			}
			list = append(list, Missing{
				PodDisk: PodDisk{name, disk}, Claim: claim,
				Node: volume.Annotations[naming.AnnotationNode], Since: volume.CreationTimestamp.Time,
			})
		}
	}
	return list
}

// Due are the releases that a person has asked for, or that a disk that is back allows: back has the missing disks that a
// scout could mount. failed has the disks that are out of use, since when. What is asked for at a time that has yet to come
// waits: later is how long; 0 for nothing.
func Due(s State, verbs Verbs, back map[PodDisk]bool, failed map[PodDisk]time.Time) (list []Release, later time.Duration) {
	after := func(asked, other time.Time) bool {
		if left := asked.Sub(s.Now); !asked.IsZero() && left > 0 {
			later = earlier(later, left+time.Second)
			return false
		}
		return !asked.IsZero() && asked.After(other)
	}
	missing := map[PodDisk]Missing{}
	for _, m := range MissingDisks(s) {
		missing[m.PodDisk] = m
	}
	for ordinal := range s.replicas() {
		name := naming.Pod(s.CacheNode.Name, ordinal)
		claims, pod := s.ClaimsOf(name), s.pod(ordinal)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			claim, key := claims[disk], PodDisk{name, disk}
			m, isMissing := missing[key]
			release := Release{Pod: name, Claims: []string{claim.Name}, Evict: true}
			switch {
			case after(verbs.Replace[key], claim.CreationTimestamp.Time):
				release.Reason, release.Note = "DiskReplaced", fmt.Sprintf("%s of %s gets another volume", disk, name)
			case isMissing && after(verbs.Readmit[key], m.Since), isMissing && back[key]:
				release.Reason, release.Note = "DiskBack", fmt.Sprintf("%s of %s is back on %s and takes its place again", disk, name, m.Node)
			case pod != nil && !failed[key].IsZero() && after(verbs.Readmit[key], failed[key]) && after(verbs.Readmit[key], pod.CreationTimestamp.Time):
				release.Claims = nil
				release.Reason, release.Note = "Evicted", fmt.Sprintf("%s makes room for a new pod, so that its repaired %s can come back", name, disk)
			default:
				continue
			}
			list = append(list, release)
		}
	}
	return merged(list), later
}

// merged has one release for each pod.
func merged(list []Release) []Release {
	var out []Release
	for _, r := range list {
		i := slices.IndexFunc(out, func(o Release) bool { return o.Pod == r.Pod })
		if i < 0 {
			out = append(out, r)
			continue
		}
		out[i].Claims = append(out[i].Claims, r.Claims...)
		out[i].Note += "; " + r.Note
	}
	return out
}
