package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// manyRoutes is the number of routes in TestRouteEdits. mostLag is the longest time from an edit of a route until every
// pod has it or a later one.
const (
	manyRoutes       = 500
	mostLag          = 30 * time.Second
	slow             = 15 * time.Second // each slower edit is logged
	betweenDownloads = 10 * time.Second // the time between two slow downloads
	// mostMemory is three quarters of the memory limit of editedFleet, in MiB. The agent ends old workers at a half.
	mostMemory = 576
)

// editedFleet serves only routes of the tests' namespace, with a memory limit that shows whether old workers are
// bounded.
const editedFleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  replicas: 2
  disks:
  - {name: disk1, size: 1Gi, storageClassName: local-disks}
  gateways: {maxRoutesPerNamespace: 1000}
  memoryTier: {enabled: false}
  pod: {resources: {limits: {memory: 768Mi}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec:
  controllerName: cachenode.io/gateway
  parametersRef: {group: cachenode.io, kind: CacheNode, name: edge, namespace: e2e}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edits, namespace: e2e}
spec:
  gatewayClassName: edge
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

// routeWith returns an HTTPRoute with two rules. The second has the given path.
func routeWith(name, host, path string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s}
spec:
  parentRefs: [{name: edits}]
  hostnames: [%s]
  rules:
  - matches: [{path: {value: /objects}}]
    backendRefs: [{name: origin, port: 80}]
  - matches: [{path: {value: %s}}]
    backendRefs: [{name: origin, port: 80}]
`, name, host, path)
}

// routeEdits follows the edits of one route in all pods.
type routeEdits struct {
	*suite
	pods map[string]string // the address of each pod's port for the Gateway, by name

	mutex sync.Mutex
	made  []time.Time    // when the request for each edit began
	seen  map[string]int // the last edit that each pod is known to have
	// lags is the time from the beginning of each edit until a client has found it, or a later edit, in all pods.
	lags map[int]time.Duration
}

// edit makes the next edit: the route then has the path of this edit, instead of the one before.
func (e *routeEdits) edit(t *testing.T) {
	t.Helper()
	e.mutex.Lock()
	next := len(e.made)
	e.mutex.Unlock()
	route := &unstructured.Unstructured{}
	route.SetAPIVersion("gateway.networking.k8s.io/v1")
	route.SetKind("HTTPRoute")
	route.SetNamespace(namespace)
	route.SetName("edited")
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/rules/1/matches/0/path/value", "value": %q}]`, pathOf(next))
	begun := time.Now()
	must(t, e.Patch(context.Background(), route, client.RawPatch(types.JSONPatchType, []byte(patch))))
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.made = append(e.made, begun)
}

// pathOf returns the path of the route after an edit.
func pathOf(edit int) string { return fmt.Sprintf("/versions/edit-%d", edit) }

// editOnce makes an edit, while a client in the cluster asks each pod for the new path all the time. It waits until all
// pods have the edit.
func (e *routeEdits) editOnce(t *testing.T) {
	t.Helper()
	next := len(e.made)
	askers := map[string]*process{}
	for pod, address := range e.pods {
		cmd := exec.Command("kubectl", "--namespace", namespace, "exec", "-i", e.clients[0], "--", "/client", "fetch",
			"-base", "http://"+address, "-host", "edited.example.com", "-until", (2 * mostLag).String())
		askers[pod] = start(t, cmd, strings.NewReader(pathOf(next)+"/x"))
	}
	e.edit(t)
	for pod, asker := range askers {
		<-asker.exited
		var r report.Result
		if err := json.Unmarshal([]byte(asker.out.String()), &r); err != nil || r.Status != http.StatusOK {
			t.Fatalf("%s does not have edit %d: %s, %v", pod, next, asker.out.String(), err)
		}
		e.seen[pod] = next
		e.lags[next] = max(e.lags[next], began(r).Sub(e.made[next]))
	}
}

// look asks a pod which edit it has, and notes how long the edits since its last one took.
func (e *routeEdits) look(t *testing.T, pod string) {
	t.Helper()
	e.mutex.Lock()
	from, until := e.seen[pod]+1, len(e.made)
	e.mutex.Unlock()
	if from >= until {
		return
	}
	var paths []string
	for i := from; i < until; i++ {
		paths = append(paths, pathOf(i)+"/x")
	}
	for i, r := range e.fetch(t, 0, paths, "-base", "http://"+e.pods[pod], "-host", "edited.example.com") {
		if r.Status != http.StatusOK {
			continue
		}
		e.mutex.Lock()
		for edit := e.seen[pod] + 1; edit <= from+i; edit++ {
			lag := time.Since(e.made[edit])
			if e.lags[edit] = max(e.lags[edit], lag); lag > slow {
				t.Logf("%s: edit %d after %s", pod, edit, lag.Round(10*time.Millisecond))
			}
		}
		e.seen[pod] = from + i
		e.mutex.Unlock()
	}
}

// begins waits until every pod serves the route as it is before the first edit.
func (e *routeEdits) begins(t *testing.T) {
	t.Helper()
	within(t, 2*mostLag, func() string {
		for pod, address := range e.pods {
			first := []string{pathOf(0) + "/x"}
			r := e.fetch(t, 0, first, "-base", "http://"+address, "-host", "edited.example.com")[0]
			if r.Status != http.StatusOK {
				return fmt.Sprintf("%s answers %d", pod, r.Status)
			}
		}
		return ""
	})
}

// settle waits until every pod has the last edit.
func (e *routeEdits) settle(t *testing.T) {
	t.Helper()
	within(t, 2*mostLag, func() string {
		for pod := range e.pods {
			e.look(t, pod)
			e.mutex.Lock()
			behind := len(e.made) - 1 - e.seen[pod]
			e.mutex.Unlock()
			if behind > 0 {
				return fmt.Sprintf("%s is %d edits behind", pod, behind)
			}
		}
		return ""
	})
}

// report logs the median and the longest of the lags since the last report, and returns the longest.
func (e *routeEdits) report(t *testing.T, what string) time.Duration {
	t.Helper()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(e.lags) == 0 {
		t.Fatalf("%s: no edit has reached a pod", what)
	}
	lags := slices.Sorted(maps.Values(e.lags))
	longest := lags[len(lags)-1]
	t.Logf("pods have the edits %v", e.seen)
	t.Logf("%s: %v", what, rounded(e.lags))
	t.Logf("%s: %d edits; until all %d pods had one: median %s, longest %s", what, len(lags), len(e.pods),
		lags[len(lags)/2].Round(10*time.Millisecond), longest.Round(10*time.Millisecond))
	clear(e.lags)
	return longest
}

// rounded returns the lags of up to 20 edits, in the order of the edits.
func rounded(lags map[int]time.Duration) (list []time.Duration) {
	for _, edit := range slices.Sorted(maps.Keys(lags))[:min(20, len(lags))] {
		list = append(list, lags[edit].Round(10*time.Millisecond))
	}
	return list
}

// TestRouteEdits makes edits among 500 routes: one after another, and then one a second for ten minutes, while clients
// download slowly. It shows how long edits take, and that old workers have a bound. It takes a quarter of an hour.
// CACHENODE_TEST_EDIT_SECONDS sets another length.
func TestRouteEdits(t *testing.T) {
	s := newSuite(t)
	installGatewayAPI(t)
	t.Cleanup(func() {
		kubectl(t, "", "delete", "gateway,httproute", "--all", "--wait")
		kubectl(t, "", "delete", "gatewayclass", "edge", "--ignore-not-found")
	})
	s.starts(t, editedFleet)
	var all strings.Builder
	for i := range manyRoutes - 1 {
		all.WriteString(routeWith(fmt.Sprint("r-", i), fmt.Sprintf("h-%d.example.com", i), "/versions") + "---")
	}
	all.WriteString(routeWith("edited", "edited.example.com", pathOf(0)))
	kubectl(t, all.String(), "apply", "--server-side", "-f", "-")
	// The first edit must not wait for the work that the new routes cause.
	const programmed = `jsonpath={.items[*].status.parents[*].conditions[?(@.type=="cachenode.io/Programmed")].status}`
	within(t, 3*time.Minute, func() string {
		if n := strings.Count(kubectl(t, "", "get", "httproute", "-o", programmed), "True"); n != manyRoutes {
			return fmt.Sprintf("%d routes are programmed", n)
		}
		return ""
	})
	gatewayAddress := kubectl(t, "", "get", "service", naming.Gateway(namespace, "edits"), "-o",
		"jsonpath={.spec.ports[0].targetPort}")
	e := &routeEdits{
		suite: s, pods: map[string]string{}, seen: map[string]int{}, made: []time.Time{time.Now()},
		lags: map[int]time.Duration{},
	}
	for _, p := range s.cachePods(t) {
		e.pods[p.Name], e.seen[p.Name] = p.Status.PodIP+":"+gatewayAddress, 0
	}
	e.begins(t)
	before := uids(s.cachePods(t))

	const few = 20
	for range few {
		e.editOnce(t)
	}
	if longest := e.report(t, "one edit after another"); longest > mostLag {
		t.Errorf("an edit took %s, want at most %s", longest, mostLag)
	}

	length := 10 * time.Minute
	if text := os.Getenv("CACHENODE_TEST_EDIT_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		must(t, err)
		if length = time.Duration(seconds) * time.Second; length < betweenDownloads {
			t.Fatalf("CACHENODE_TEST_EDIT_SECONDS is %d, want at least %.0f", seconds, betweenDownloads.Seconds())
		}
	}
	downloads := e.downloadSlowly(t, length)
	most := map[string]int{}
	end, every := time.Now().Add(length), time.NewTicker(time.Second)
	defer every.Stop()
	for i := 0; time.Now().Before(end); i++ {
		<-every.C
		e.edit(t)
		for pod := range e.pods {
			e.look(t, pod)
			if i%5 == 0 {
				most[pod] = max(most[pod], nginxMemory(t, pod))
			}
		}
	}
	e.settle(t)
	if longest := e.report(t, "an edit a second"); longest > mostLag {
		t.Errorf("an edit took %s, want at most %s", longest, mostLag)
	}
	t.Logf("the most memory of nginx's processes, in MiB: %v; %s", most, downloads())
	for pod, mebibytes := range most {
		if mebibytes > mostMemory {
			t.Errorf("nginx's processes in pod %s had %d MiB, want at most %d", pod, mebibytes, mostMemory)
		}
	}
	if after := uids(s.cachePods(t)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were replaced or restarted: %v, before %v", after, before)
	}
}

// nginxMemory returns the anonymous memory of all nginx processes of a pod, in MiB.
func nginxMemory(t *testing.T, pod string) int {
	t.Helper()
	const sum = `for p in /proc/[0-9]*; do grep -q nginx $p/comm && cat $p/status; done 2>/dev/null | ` +
		`awk '/^RssAnon/ {kb += $2} END {print int(kb / 1024)}'`
	got, err := tryKubectl("", "exec", pod, "-c", "nginx", "--", "sh", "-c", sum)
	must(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(got))
	must(t, err)
	return n
}

// downloadSlowly begins a download from each pod every ten seconds, until the given time is over. The function that it
// returns waits for that, and says how many downloads there were, and how many broke off.
func (e *routeEdits) downloadSlowly(t *testing.T, length time.Duration) (ended func() string) {
	t.Helper()
	clients := map[string]*process{}
	for pod, address := range e.pods {
		var paths []string
		for i := range int(length / betweenDownloads) {
			paths = append(paths, fmt.Sprintf("/objects/60000000/slow-%s-%d", pod, i))
		}
		cmd := exec.Command("kubectl", "--namespace", namespace, "exec", "-i", e.clients[1], "--", "/client", "slow",
			"-base", "http://"+address, "-host", "edited.example.com", "-seconds", strconv.Itoa(int(length.Seconds())))
		clients[pod] = start(t, cmd, strings.NewReader(strings.Join(paths, "\n")))
	}
	return func() string {
		var sum report.Downloads
		for pod, client := range clients {
			<-client.exited
			var of report.Downloads
			if err := json.Unmarshal([]byte(client.out.String()), &of); err != nil {
				t.Errorf("the downloads from %s: %v", pod, err)
			}
			sum.Begun, sum.Broken = sum.Begun+of.Begun, append(sum.Broken, of.Broken...)
		}
		return fmt.Sprintf("%d slow downloads, of which %d broke off: %q",
			sum.Begun, len(sum.Broken), sum.Broken[:min(3, len(sum.Broken))])
	}
}
