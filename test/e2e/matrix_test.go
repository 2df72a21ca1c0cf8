package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// earlierOnes are the commits from which TestUpgradeMatrix upgrades and to which it goes back, the oldest first. Add
// the last commit before a change of the files on disks, or of the data that pods and operator exchange. A release
// replaces the commits before it.
var earlierOnes = []string{
	"e6f75722c73c", // before the renderer had a number
	earlier,
	sameForPods,    // before the renderer divided a CacheNode into node and sites
	"523f0fa36b96", // before nginx's image became the operator's
}

// TestUpgradeMatrix upgrades the operator from earlier commits, replaces the pods, and goes back, all under load and
// with a warm cache. The CacheNode is the sample of the earlier commit, so both operators know its fields. No request
// may fail. After each change, the operator and its agents must take over the data that the others have written:
// objects, their index, and the marks of the disks. The test has the same requirements as TestUpgrade.
func TestUpgradeMatrix(t *testing.T) {
	for _, commit := range earlierOnes {
		t.Run(commit, func(t *testing.T) {
			s := withEarlier(t, commit)
			s.starts(t, execute(t, "git", "-C", "../..", "show", commit+":config/samples/cachenode.yaml"))
			s.shared(t, 3)
			s.inOrder(t, []step{
				{"objects are stored in each pod, or in that of the owner", func(t *testing.T, s *suite) {
					for _, pod := range s.cachePods(t) {
						s.target(t, pod.Name).warm(t, kept)
					}
				}},
				{"the upgrade restarts no pod", keepsPods(upgradesOperator)},
				{"what was stored is there", keepsObjects},
				{"new pods take over the disks", replacesPods("upgraded")},
				{"they answer with what the earlier ones have stored", keepsObjects},
				{"the way back restarts no pod", keepsPods(returnsOperator)},
				{"what was stored is there for the earlier operator", keepsObjects},
				{"pods of the earlier operator take over the disks", replacesPods("returned")},
				{"they answer with what was stored first", keepsObjects},
			})
		})
	}
}

// shared waits until the given number of pods own keys, if the pods share keys. The oldest operators do not support the
// sharing of keys.
func (s *suite) shared(t *testing.T, count int) {
	t.Helper()
	if s.cacheNode(t).Status.Routing != nil {
		s.owners(t, count)
	}
}

// find waits until each pod finds all other pods. With operators before the commit sameForPods, pods find a replaced
// pod by its DNS name, which takes up to twenty seconds. Among sixty objects, each of the other pods owns some. If a
// pod does not find an owner, a stand-in answers for about half of the owner's objects.
func (s *suite) find(t *testing.T, prefix string) {
	t.Helper()
	for _, pod := range s.cachePods(t) {
		tries := 0
		within(t, time.Minute, func() string {
			tries++ // an object that is requested again may be in memory
			for _, r := range s.target(t, pod.Name).get(t, fresh(fmt.Sprintf("%s-%s-%d", prefix, pod.Name, tries), 60)) {
				if r.Hop == "standin" {
					return fmt.Sprintf("%s does not find the owner of %s", pod.Name, r.Path)
				}
			}
			return ""
		})
		t.Logf("%s finds all others after %d rounds", pod.Name, tries)
	}
}

// returnsOperator rolls the operator back to the version that was installed before the upgrade.
func returnsOperator(t *testing.T) {
	t.Helper()
	helm(t, "rollback", release, "--wait", "--timeout", "5m")
}

// keepsPods returns a step that changes the operator under load. The step fails if a pod restarts or a request fails.
func keepsPods(change func(*testing.T)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		before, load := uids(s.cachePods(t)), s.load(t, shared)
		change(t)
		s.current(t)
		s.passesAgain(t)
		s.shared(t, len(before))
		checkLoad(t, load.more(t, 300).end())
		for pod, id := range uids(s.cachePods(t)) {
			if before[pod] != id {
				t.Errorf("%s was restarted: was %s, is %s", pod, before[pod], id)
			}
		}
	}
}

// replacesPods returns a step in which the operator replaces all pods under load.
func replacesPods(value string) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		old, load := s.cachePods(t), s.load(t, shared)
		kubectl(t, "", "annotate", "cachenode", name, v1alpha1.AnnotationRestart+"="+value, "--overwrite")
		within(t, 4*time.Minute, func() string {
			for _, pod := range s.cachePods(t) {
				if slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
					return fmt.Sprintf("%s is not replaced", pod.Name)
				}
			}
			return ""
		})
		s.current(t)
		s.shared(t, len(old))
		s.find(t, "found-"+value)
		checkLoad(t, load.more(t, 300).end())
	}
}
