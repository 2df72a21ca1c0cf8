package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/sites"
	"github.com/cachenode/cachenode-operator/test/content"
)

// earlier is the commit from which TestUpgrade upgrades. Its agents have the faults that the test looks for, and their
// reports do not contain the renderer's number.
const earlier = "19cead78c0c8"

// TestUpgrade upgrades the operator from an earlier commit and replaces the pods under load, as the page about upgrades
// describes. The earlier pods have faults that the new pods must not have. The test needs a clone of the repository
// that contains the commit. It also needs its own cluster, because it replaces the CRDs.
func TestUpgrade(t *testing.T) {
	s := withEarlier(t, earlier)
	createListenerSecret(t)
	s.startsWith(t, "  listen: {tls: {secretName: listener}}\n",
		"key: [Scheme, Host, RequestURI]", "key: [Host, URI]", "{status: [404], for: 1m}", "{status: [404], for: 1h}")
	s.owners(t, 3)
	s.inOrder(t, []step{
		{"the earlier pods have the faults", hasFaults},
		{"objects are stored", storesObjects},
		{"the upgrade restarts no pod, and the status names those that lack a fix", outdatesPods},
		{"a restart replaces the pods under load, and the condition clears", replacesOutdated},
		{"the new pods answer with what the earlier ones have stored", keepsObjects},
		{"the new pods have none of the faults", hasNoFaults},
	})
}

// withEarlier replaces the operator and its CRDs by those of an earlier commit until the end of the test.
func withEarlier(t *testing.T, commit string) *suite {
	t.Helper()
	nativeOnly(t)
	cluster(t, "load", strings.TrimSpace(execute(t, "../cluster/images.sh", "operator@"+commit)))
	s := newSuite(t)
	restoresOperator(t)
	dir := t.TempDir()
	archive := filepath.Join(dir, "chart.tar")
	execute(t, "git", "-C", "../..", "archive", "--output", archive, commit, "charts/cachenode-operator")
	execute(t, "tar", "-xf", archive, "-C", dir)
	kubectl(t, "", "delete", "cachenodes", "--all", "--all-namespaces", "--wait")
	helm(t, "uninstall", release, "--wait")
	kubectl(t, "", "delete", "customresourcedefinitions", "cachenodes.cachenode.io", "cachepurges.cachenode.io", "--wait")
	install(t, filepath.Join(dir, "charts/cachenode-operator"), "image.tag="+commit)
	return s
}

// sameForPods is a commit whose operator writes the same data for pods as the operator of this working tree.
const sameForPods = "ecb9ff28e6d0"

// TestQuietUpgrade checks an upgrade of the operator that changes nothing for pods. Such an upgrade must not write
// objects that the pods read, and must not affect nginx. The test has the same requirements as TestUpgrade, and runs in
// make test-all.
func TestQuietUpgrade(t *testing.T) {
	s := withEarlier(t, sameForPods)
	s.startsWith(t, "")
	s.owners(t, 3)
	before := s.seenByPods(t)
	upgradesOperator(t)
	s.passesAgain(t)
	if diff := cmp.Diff(before, s.seenByPods(t)); diff != "" {
		t.Errorf("pods see something else (-before +after):\n%s", diff)
	}
}

// seenByPods returns everything in pods that the operator can change. These are annotations, nginx's processes and
// configuration, and the versions of the objects that the kubelet mounts.
func (s *suite) seenByPods(t *testing.T) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for _, pod := range s.cachePods(t) {
		seen[pod.Name] = uids([]corev1.Pod{pod})[pod.Name]
		for key, value := range pod.Annotations {
			seen[pod.Name+" "+key] = value
		}
		seen[pod.Name+" processes"] = inNginx(t, pod.Name, "sh", "-c", // without the cache loader, which ends
			`grep -lE "^nginx: (master|worker)|^/opt/cachenode/agent" /proc/[0-9]*/cmdline 2>/dev/null; true`)
		seen[pod.Name+" nginx.conf"] = inNginx(t, pod.Name, "cat", layout.ConfigFile)
	}
	const versions = `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`
	seen["objects"] = kubectl(t, "", "get", "configmaps,secrets", "-l", naming.LabelInstance+"="+name, "-o", versions)
	return seen
}

// absent are pages that the origin answers with 404, which the caches store.
var absent = func() (paths []string) {
	for i := range 8 {
		paths = append(paths, fmt.Sprintf("/absent/%d", i))
	}
	return paths
}()

// endings requests the absent pages, which are in the cache, from a pod. whole is the number of complete answers that
// came from another pod. endless is the number of answers of which no byte of the body arrived before the client's
// timeout.
func (p *target) endings(t *testing.T, timeout string) (whole, endless int) {
	t.Helper()
	for _, r := range p.get(t, absent, "-timeout", timeout) {
		switch {
		case r.Status != http.StatusNotFound:
			t.Errorf("%s: %+v", p.name, r)
		case strings.HasPrefix(r.Error, cut) && r.Bytes == 0:
			endless++
		case !strings.HasPrefix(r.Error, cut) && r.Hop == "peer" && r.Cache == "HIT":
			whole++
		}
	}
	return whole, endless
}

// smuggles sends requests to each pod. The path of each request contains a second request, with a new name. smuggles
// returns the number of answers for each status, and the number of second requests that reached the origin.
func (s *suite) smuggles(t *testing.T, try string) (statuses map[int]int, arrived int) {
	t.Helper()
	// The text after the second line break is a request for an object, which the origin would count.
	const attack = "/%s-%d%%0d%%0a%%0d%%0aGET%%20/objects/10/smuggled-%s-%d%%20HTTP/1.1%%0d%%0aHost:%%20" + name +
		"%%0d%%0aX-A:%%20"
	before := s.asked(t)
	statuses = map[int]int{}
	for _, pod := range s.cachePods(t) {
		var paths []string
		for i := range 20 {
			paths = append(paths, fmt.Sprintf(attack, try+pod.Name, i, try+pod.Name, i))
		}
		for _, r := range s.target(t, pod.Name).get(t, paths) {
			statuses[r.Status]++
		}
	}
	return statuses, s.asked(t) - before
}

// overHTTP2 sends a GET over HTTP/2 to the pod. If body is not "", the request has this body, but no header that
// announces it. overHTTP2 returns the status and the header X-Cache of the response.
func (p *target) overHTTP2(t *testing.T, path, body string) string {
	t.Helper()
	pod := p.pod(t)
	args := []string{
		"fault", "run", pod.Spec.NodeName, "curl", "--silent", "--show-error", "--noproxy", "*", "--insecure", "--http2",
		"--header", "Host: " + name, "--output", "/dev/null", "--write-out", "%{http_code} %header{x-cache}",
	}
	if body != "" {
		args = append(args, "--request", http.MethodGet, "--upload-file", "-")
	}
	cmd := exec.Command("../cluster/cluster", append(args, fmt.Sprintf("https://%s:8443%s", pod.Status.PodIP, path))...)
	cmd.Stdin = strings.NewReader(body)
	out, err := cmd.Output()
	must(t, err)
	return string(out)
}

// reweighs changes the weights of the disks, so that keys move between the disks of each pod. It checks that the pods
// hand these keys over.
func (s *suite) reweighs(t *testing.T, weights ...int) {
	t.Helper()
	s.editEachDisk(t, func(i int) string { return fmt.Sprintf(`"weight":%d`, weights[i]) })
	s.current(t)
	s.handsOver(t)
}

// handsOver checks that nginx in each pod sends the gateway the name of the disk on which an object was before.
func (s *suite) handsOver(t *testing.T) {
	t.Helper()
	for _, pod := range s.cachePods(t) {
		if !strings.Contains(inNginx(t, pod.Name, "cat", layout.ConfigFile), "proxy_set_header X-CacheNode-Former $former;") {
			t.Errorf("%s does not hand keys over", pod.Name)
		}
	}
}

// hasFaults checks that the earlier pods have the faults. This shows that the test can detect the faults.
func hasFaults(t *testing.T, s *suite) {
	s.target(t, name+"-0").get(t, absent, "-timeout", "2s") // stores them
	within(t, 30*time.Second, func() string {
		if _, endless := s.target(t, name+"-1").endings(t, "1s"); endless == 0 {
			return "answers of other pods without a body do not show"
		}
		return ""
	})
	path := content.Path(1000, "with-a-body")
	p := s.target(t, name+"-0")
	if first, second := p.overHTTP2(t, path, "evil"), p.overHTTP2(t, path, ""); second != "200 HIT" {
		t.Errorf("the response to a body gets %q, and is not stored: %q", first, second)
	}
	s.reweighs(t, 100, 100, 50)
	tries := 0
	within(t, 30*time.Second, func() string {
		tries++
		if statuses, arrived := s.smuggles(t, fmt.Sprintf("before-%d", tries)); arrived == 0 {
			return fmt.Sprintf("no request is smuggled: %v", statuses)
		}
		return ""
	})
}

// kept are objects that an upgrade keeps.
var kept = fresh("kept", 300)

func storesObjects(t *testing.T, s *suite) { s.target(t, name+"-0").warm(t, kept) }

// keepsObjects requests the objects that were stored before the upgrade from each pod, until the owners have answered
// for all objects. On a busy machine, an owner may not answer in time. Then another pod answers, possibly the pod that
// received the request, and this pod may ask the origin.
func keepsObjects(t *testing.T, s *suite) {
	before, others, isOwner := s.asked(t), 0, s.isOwner(t)
	for _, pod := range s.cachePods(t) {
		left := kept
		within(t, time.Minute, func() string {
			results := s.target(t, pod.Name).get(t, left)
			left = nil
			for _, r := range results {
				switch {
				case r.Error != "":
					t.Errorf("%s: %s: %s", pod.Name, r.Path, r.Error)
				case r.Hop == "standin", r.Hop == "origin", r.Hop == "none" && !isOwner(pod.Name, r.Path):
					others++
					left = append(left, r.Path)
				case r.Cache != "HIT":
					t.Errorf("%s: %s is no HIT: %+v", pod.Name, r.Path, r)
				}
			}
			if len(left) == 0 {
				return ""
			}
			return fmt.Sprintf("%s: the owners of %d objects did not answer", pod.Name, len(left))
		})
	}
	asked := s.asked(t) - before
	t.Logf("all owners have their objects; %d answers came from other pods, %d from the origin", others, asked)
	if asked > others {
		t.Errorf("the origin was asked %d times", asked)
	}
}

// isOwner returns a function that reports whether a pod owns the key of a path.
func (s *suite) isOwner(t *testing.T) func(pod, path string) bool {
	t.Helper()
	owning, err := fleet.Read(s.cachePods(t)[0].Annotations[naming.AnnotationFleet])
	must(t, err)
	policy := sites.Own(s.cacheNode(t).Spec).Cache
	return func(pod, path string) bool {
		u, err := url.Parse("http://" + name + path)
		must(t, err)
		asked, ok := naming.Ordinal(name, pod)
		if !ok {
			t.Fatalf("%s is no pod of %s", pod, name)
		}
		key := cachekey.Of(policy, cachekey.ForURL(u, u.String())).Object()
		owner, _, _, _ := owning.For(asked).Holders(key)
		return owner == asked
	}
}

// upgradesOperator upgrades the operator to the version of this working tree.
func upgradesOperator(t *testing.T) {
	t.Helper()
	helm(t, "upgrade", release, chart, "--reset-then-reuse-values", "--set", "image.tag=test", "--wait", "--timeout", "5m")
}

// outdatesPods upgrades the operator under load, and checks that the CacheNode reports the pods as outdated.
func outdatesPods(t *testing.T, s *suite) {
	before, load := uids(s.cachePods(t)), s.load(t, shared)
	upgradesOperator(t)
	const want = "agents that lack a security fix: " + name + "-0, " + name + "-1, " + name + "-2; "
	within(t, time.Minute, func() string {
		reason, message := s.condition(t, v1alpha1.ConditionOutdated)
		if n := s.cacheNode(t).Status.OutdatedPods; n == 3 && strings.HasPrefix(message, want) {
			return ""
		}
		return fmt.Sprintf("Outdated is for %q (%s), want %q", reason, message, want)
	})
	told := plugin(t, "", "status", name)
	t.Logf("\n%s", told)
	if line := "Outdated=True (" + v1alpha1.ReasonSecurityFix + "): 3 of 3 pods: " + want; !strings.Contains(told, line) {
		t.Errorf("the plugin does not say %q", line)
	}
	for pod, id := range uids(s.cachePods(t)) {
		if before[pod] != id {
			t.Errorf("%s was restarted: was %s, is %s", pod, before[pod], id)
		}
	}
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
}

// replacesOutdated replaces the outdated pods under load.
func replacesOutdated(t *testing.T, s *suite) {
	old, load := s.cachePods(t), s.load(t, shared)
	kubectl(t, "", "annotate", "cachenode", name, v1alpha1.AnnotationRestart+"=upgraded", "--overwrite")
	within(t, 4*time.Minute, func() string {
		if reason, message := s.condition(t, v1alpha1.ConditionOutdated); reason != "" {
			return reason + ": " + message
		}
		return ""
	})
	for _, pod := range s.cachePods(t) {
		isOld := slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.UID == pod.UID })
		if isOld && pod.Status.Phase == corev1.PodRunning {
			t.Errorf("nothing is outdated, but the old %s still runs", pod.Name)
		}
	}
	if n := s.cacheNode(t).Status.OutdatedPods; n != 0 {
		t.Errorf("status.outdatedPods is %d", n)
	}
	s.current(t)
	s.owners(t, len(old))
	checkLoad(t, load.more(t, 300).end())
}

// hasNoFaults checks that no pod has the faults that hasFaults has found in the earlier pods.
func hasNoFaults(t *testing.T, s *suite) {
	pods := s.cachePods(t)
	for range 2 { // after this, the pages are stored
		for _, pod := range pods {
			s.target(t, pod.Name).get(t, absent)
		}
	}
	for _, pod := range pods {
		s.hasNoFault(t, pod)
	}
	s.reweighs(t, 50, 100, 100)
	statuses, arrived := s.smuggles(t, "after")
	if refused := statuses[http.StatusBadRequest]; len(statuses) != 1 || refused == 0 || arrived > 0 {
		t.Errorf("smuggled requests get %v, and %d arrive", statuses, arrived)
	}
	s.handsOver(t)
}

func (s *suite) hasNoFault(t *testing.T, pod corev1.Pod) {
	t.Helper()
	p := s.target(t, pod.Name)
	if whole, endless := p.endings(t, "1m"); endless > 0 || whole == 0 {
		t.Errorf("%s: %d answers of other pods came to their end, %d did not", p.name, whole, endless)
	}
	path := content.Path(1000, "with-a-body-"+p.name)
	if with, without := p.overHTTP2(t, path, "evil"), p.overHTTP2(t, path, ""); without != "200 MISS" {
		t.Errorf("%s: with a body %q, then without one %q, want a MISS", p.name, with, without)
	}
	within(t, 30*time.Second, func() string { // a busy disk may store it late, or another pod may answer
		if again := p.overHTTP2(t, path, ""); again != "200 HIT" {
			return fmt.Sprintf("%s: without a body %q, want a HIT", p.name, again)
		}
		return ""
	})
}
