package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// staleEvent is the age of an event's last occurrence from which the event no longer counts. The kubelet retries a
	// mount after 2 minutes at the latest.
	staleEvent = 5 * time.Minute
	// lateAfter is the time for which a pod may wait for its volumes before its events are read.
	lateAfter = 15 * time.Second
	// eventsAgain is the time after which the events of a pod that does not start are read again, because events are not
	// watched.
	eventsAgain = 15 * time.Second
)

// Missing is a disk that a placeholder replaces.
type Missing struct {
	PodDisk
	Claim *corev1.PersistentVolumeClaim
	Node  string
	// Since is the time at which the placeholder was created.
	Since time.Time
}

// missing returns the disks that placeholders replace.
func (s State) missing() []Missing {
	var list []Missing
	for _, name := range s.podNames() {
		claims := s.claimsOf(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			claim := claims[disk]
			volume := s.Volumes[claim.Spec.VolumeName]
			if !hasPlaceholder(claim) || volume == nil {
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

// hasPlaceholder reports whether a claim is bound to a placeholder.
func hasPlaceholder(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && claim.Spec.VolumeName == naming.Placeholder(claim.Namespace, claim.Name)
}

// startWithoutDisks lets pods start without the disks that cannot be mounted. It also creates placeholders for disks
// that were not mounted when their pods started. A running pod cannot see a disk that is mounted later, but the scout
// that belongs to the placeholder can.
func (p *plan) startWithoutDisks() {
	for i := range p.Pods {
		pod := &p.Pods[i]
		late, after := p.isLate(pod)
		p.again(after)
		if late {
			p.again(eventsAgain)
		}
		stuck, after := p.stuck(pod)
		p.again(after)
		if !stuck {
			continue
		}
		p.again(eventsAgain)
		p.doWithout(pod, blamed(pod, p.claimsOf(pod.Name), p.Events[pod.Name], p.Now), false)
	}
	for _, key := range p.bare() {
		if pod := p.pod(key.Pod); pod != nil && pod.DeletionTimestamp.IsZero() {
			cause := "its folder is there and nothing was mounted on it when the pod started"
			p.doWithout(pod, map[string]string{key.Disk: cause}, true)
		}
	}
}

// stuck reports whether a pod has been on a node for longer than the spec allows without being initialized. It does not
// consider the cause. If the pod is not stuck, after is the time until the next check; 0 means never.
func (s State) stuck(pod *corev1.Pod) (stuck bool, after time.Duration) {
	patience := effective.Duration(s.CacheNode.Spec.Disruption.DiskLossAfter)
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
	if left := patience - s.Now.Sub(scheduled); left > 0 {
		return false, left + time.Second
	}
	return true, 0
}

// isLate reports whether a pod has waited for its volumes so long that its events must be read. If not, after is the
// time until the next check; 0 means never.
func (s State) isLate(pod *corev1.Pod) (late bool, after time.Duration) {
	if !pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName == "" || IsReady(pod) {
		return false, 0
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue {
			return false, 0
		}
	}
	if left := lateAfter - s.Now.Sub(pod.CreationTimestamp.Time); left > 0 {
		return false, left + time.Second
	}
	return true, 0
}

// Unmounted returns the kubelet's latest message that a volume of a pod cannot be mounted; "" if there is no such
// message.
func (s State) Unmounted(pod *corev1.Pod) string {
	message, latest := "", time.Time{}
	for _, e := range s.Events[pod.Name] {
		if e.Reason != "FailedMount" || e.InvolvedObject.UID != pod.UID {
			continue
		}
		if last := lastTime(e); message == "" || last.After(latest) {
			message, latest = e.Message, last
		}
	}
	return message
}

// lastTime returns the time at which an event was last seen.
func lastTime(e corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.Series != nil {
		last = e.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = e.EventTime.Time
	}
	return last
}

// bare returns the disks with a localPath that the agent has reported as not mounted for longer than the spec allows.
func (p *plan) bare() (list []PodDisk) {
	patience := effective.Duration(p.CacheNode.Spec.Disruption.DiskLossAfter)
	if patience == 0 {
		return nil
	}
	for _, name := range p.podNames() {
		claims := p.claimsOf(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			report := p.Disks[PodDisk{name, disk}]
			isUnmounted := report.State == v1alpha1.DiskFailed && report.Reason == v1alpha1.DiskNotMounted
			if !isUnmounted || p.localDisk(disk) == nil || hasPlaceholder(claims[disk]) {
				continue
			}
			if left := patience - p.Now.Sub(report.Since); left > 0 {
				p.again(left + time.Second)
				continue
			}
			list = append(list, PodDisk{name, disk})
		}
	}
	return list
}

// doWithout plans a release that replaces some disks of a pod by placeholders and recreates the pod. disks contains the
// cause for each disk. evict is true if the pod serves requests.
func (p *plan) doWithout(pod *corev1.Pod, disks map[string]string, evict bool) {
	node := p.node(pod.Spec.NodeName)
	if node == nil {
		return
	}
	claims := p.claimsOf(pod.Name)
	release := Release{Name: pod.Name, Reason: "DiskMissing", Evict: evict}
	var notes []string
	for _, disk := range slices.Sorted(maps.Keys(disks)) {
		claim := claims[disk]
		volume := p.Volumes[claim.Spec.VolumeName]
		if hasPlaceholder(claim) || volume == nil || hostnameOf(volume) == "" {
			continue // such a volume may still have to be attached: it is tied to no node
		}
		release.Placeholders = append(release.Placeholders, manifest.Placeholder(p.CacheNode, claim, disk, node))
		release.Claims = append(release.Claims, claim)
		notes = append(notes, fmt.Sprintf("%s of %s cannot be mounted on %s; the pod starts without it: %.300s",
			disk, pod.Name, node.Name, disks[disk]))
	}
	if len(release.Placeholders) == 0 {
		return
	}
	release.Note = strings.Join(notes, "; ")
	p.release(&p.Keep.Releases, release)
}

// blamed returns the disks because of which a pod does not start, each with a message of the kubelet or the container
// runtime. Both kinds of messages name the volume. The kubelet names it in events such as "MountVolume.SetUp failed for
// volume "x"". The runtime names it in the path that it cannot stat.
func blamed(
	pod *corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim, events []corev1.Event, now time.Time,
) map[string]string {
	var messages []string
	for _, e := range events {
		isFailure := e.Reason == "FailedMount" || e.Reason == "Failed"
		if e.InvolvedObject.UID == pod.UID && isFailure && now.Sub(lastTime(e)) < staleEvent {
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
	disks := map[string]string{}
	for disk, claim := range claims {
		volume := claim.Spec.VolumeName
		if volume == "" {
			continue
		}
		for _, m := range messages {
			if strings.Contains(m, `"`+volume+`"`) || strings.Contains(m, "/"+volume+`"`) ||
				strings.Contains(m, "/"+volume+`\"`) {
				disks[disk] = m
			}
		}
	}
	return disks
}
