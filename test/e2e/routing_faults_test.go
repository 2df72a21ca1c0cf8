package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// noneFails runs a fault of the last pod while the first pod gets a load. No request may fail; only a response whose
// header was already sent may break off. The origin may send one body for each requested key of the last pod. It may
// send a second body if the fault begins while the key's stand-in is asking the origin. If another pod is too busy to
// answer, its stand-in may also ask the origin. Objects that moved in an earlier step are renewed, which costs a
// request to the origin but no body.
func (s *suite) noneFails(t *testing.T, fault func(load[report.Result])) {
	t.Helper()
	s.endHandover(t) // of an earlier step
	locator, keys := s.owned(t).Locator(), 0
	for _, path := range shared {
		if owner, _, _, ok := locator.Holders("http://" + name + path); ok && owner == 2 {
			keys++
		}
	}
	before, bodies := s.asked(t), s.bodies(t)
	load := s.target(t, name+"-0").load(t, shared, 200, 16).more(t, 300)
	begun := time.Now()
	fault(load)
	took := time.Since(begun)
	results := load.more(t, 300).end()
	all := count(results, func(report.Result) bool { return true })
	calm := count(results, func(r report.Result) bool { return r.Began < begun.UnixMilli() })
	longest := 0.0
	for _, r := range results {
		longest = max(longest, r.Milliseconds)
	}
	asked, sent := s.asked(t)-before, s.bodies(t)-bodies
	t.Logf("%s, longest %.0f ms; p99 before the fault %.1f ms; the fault lasted %s", all, longest, calm.p99,
		took.Round(100*time.Millisecond))
	t.Logf("the origin was asked %d times and sent %d bodies; the pod owns %d of the keys", asked, sent, keys)
	if all.failed > 0 {
		t.Errorf("%d of %d requests failed: %v", all.failed, all.requests, all.errors)
	}
	_, others := s.answeredBy(t, slices.DeleteFunc(results, func(r report.Result) bool {
		owner, _, _, _ := locator.Holders("http://" + name + r.Path)
		return r.Error != "" || owner == 2
	}))
	if sent > 2*keys+others || keys < len(shared)/5 {
		t.Errorf("the origin sent %d bodies, the pod owns %d keys, and %d requests for other keys were not answered by "+
			"their owners", sent, keys, others)
	}
}

// hangingOwner stops the processes of a pod's nginx.
func hangingOwner(t *testing.T, s *suite) {
	signal := func(which string) {
		inNginx(t, name+"-2", "sh", "-c", fmt.Sprintf(`for p in /proc/[0-9]*; do
  case "$(tr '\0' ' ' <$p/cmdline)" in "nginx: "*) kill -%s ${p#/proc/};; esac
done 2>/dev/null; true`, which))
	}
	s.noneFails(t, func(load load[report.Result]) {
		signal("STOP")
		load.more(t, faultRequests)
		signal("CONT")
	})
	s.current(t)
}

func killedOwner(t *testing.T, s *suite) {
	uid := string(s.target(t, name+"-2").pod(t).UID)
	s.noneFails(t, func(load[report.Result]) { cluster(t, "fault", "kill", uid, "nginx") })
	s.current(t)
}

// cutOffOwner drops the packets from the first pod's node to the last pod.
func cutOffOwner(t *testing.T, s *suite) {
	route := func(verb string) {
		host, address := s.target(t, name+"-0").where(t), s.target(t, name+"-2").pod(t).Status.PodIP
		cluster(t, "fault", "run", host, "ip", "route", verb, "blackhole", address+"/32")
	}
	restored := false
	t.Cleanup(func() {
		if !restored {
			route("delete")
		}
	})
	s.noneFails(t, func(load load[report.Result]) {
		route("add")
		load.more(t, faultRequests)
		route("delete")
		restored = true
	})
	s.current(t)
}

func ownersNodeStops(t *testing.T, s *suite) {
	host := s.target(t, name+"-2").where(t)
	s.clear(t, host)
	s.owners(t, 3)
	var start func()
	s.noneFails(t, func(load load[report.Result]) {
		start = stopNode(t, host)
		load.more(t, faultRequests)
	})
	start()
	s.settles(t, []string{host})
	s.current(t)
	s.owners(t, 3)
}

// outgrowsPod requests twice as much data as the disks of one pod can hold. First the pods share the keys. Then an edit
// under load changes the mode, and it requests the data from pods that do not share keys.
func outgrowsPod(t *testing.T, s *suite) {
	s.editEachDisk(t, func(int) string { return `"cache":{"maxSize":"24Mi"}` })
	s.current(t)
	var set []string
	for i := range 720 { // 144 MB, and a pod holds 75
		set = append(set, fmt.Sprintf("/objects/200000/set-%d", i))
	}
	ratio := func() float64 {
		var last tally
		for range 3 { // the first passes fill the caches and evict from them
			var all []report.Result
			for node := range s.clients {
				all = append(all, s.fetch(t, node, set, "-base", base)...)
			}
			last = count(all, func(report.Result) bool { return true })
			if last.failed > 0 {
				t.Fatalf("%d requests failed: %v", last.failed, last.errors)
			}
		}
		return last.ratio()
	}
	together := ratio()
	load := s.load(t, shared)
	must(t, edit(`{"spec":{"routing":{"mode":"Local","handover":null}}}`))
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	ratio()
	t.Logf("of a working set of twice what a pod holds, %.1f%% are HITs if pods share keys", together)
	if together < 95 {
		t.Error("sharing the keys should hold the whole working set")
	}
	for pod := range 3 { // each pod holds half; nginx's cache manager may need ten seconds to evict
		within(t, time.Minute, func() string {
			files := inNginx(t, naming.Pod(name, pod), "sh", "-c",
				"grep -lra '^KEY: .*/objects/200000/set-' /var/cache/cachenode/*/cachenode/cache || true")
			if n := strings.Count(files, "\n"); n > len(set)*6/10 {
				return fmt.Sprintf("pod %d holds %d of %d objects by itself", pod, n, len(set))
			}
			return ""
		})
	}
	load = s.load(t, shared)
	must(t, edit(`{"spec":{"routing":{"mode":"Sharded","handover":"`+handover.String()+`"}}}`))
	s.current(t)
	s.owners(t, 3)
	checkLoad(t, load.more(t, 300).end())
}

// sharesInZones assigns the nodes to two zones by labels. One zone has two pods, and the other has one.
func sharesInZones(t *testing.T, s *suite) {
	zone := map[int]string{0: "a", 1: "b", 2: "a"}
	var hosts []string
	for pod := range 3 {
		hosts = append(hosts, s.target(t, naming.Pod(name, pod)).where(t))
		kubectl(t, "", "label", "node", hosts[pod], corev1.LabelTopologyZone+"="+zone[pod])
	}
	t.Cleanup(func() {
		for _, host := range hosts {
			kubectl(t, "", "label", "node", host, corev1.LabelTopologyZone+"-")
		}
	})
	load := s.load(t, shared)
	must(t, edit(`{"spec":{"routing":{"scope":"Zone"}}}`))
	s.current(t)
	var shown struct{ Status v1alpha1.CacheNodeStatus }
	within(t, time.Minute, func() string {
		must(t, json.Unmarshal([]byte(kubectl(t, "", "get", "cachenode", name, "-o", "json")), &shown))
		if r := shown.Status.Routing; r == nil || r.Zones != "a=2 b=1" || r.Applied != "3/3" {
			return fmt.Sprintf("status.routing is %+v", r)
		}
		return ""
	})
	checkLoad(t, load.more(t, 300).end())
	service := &corev1.Service{}
	must(t, s.Get(context.Background(), client.ObjectKey{Name: name}, service))
	if d := service.Spec.TrafficDistribution; d == nil || *d != corev1.ServiceTrafficDistributionPreferClose {
		t.Errorf("the Service's trafficDistribution is %v", d)
	}
	// Each zone asks the origin at most once for each object, no matter which pods the clients reach. The pod that is
	// alone in its zone uses no hops.
	paths := fresh("zones", 60)
	before := s.asked(t)
	var all []report.Result
	for range 2 {
		for node := range s.clients {
			all = append(all, s.fetch(t, node, paths, "-base", base)...)
		}
	}
	_, others := s.answeredBy(t, all) // each of these may have asked the origin too
	if got := s.asked(t) - before; got > 2*len(paths)+others {
		t.Errorf("the origin was asked %d times for %d objects in two zones", got, len(paths))
	}
	hops := map[string]int{}
	for _, r := range all {
		hops[r.Pod+" "+r.Hop]++
	}
	t.Logf("requests by pod and hop: %v", hops)
	if hops[name+"-1 peer"]+hops[name+"-1 standin"] > 0 || hops[name+"-0 peer"]+hops[name+"-2 peer"] == 0 {
		t.Errorf("hops leave their zones, or there are none: %v", hops)
	}
	text := plugin(t, "", "explain", name, "http://"+name+shared[0])
	if !strings.Contains(text, "Owner in zone b: "+name+"-1") {
		t.Errorf("explain does not name the owner in zone b:\n%s", text)
	}
	must(t, edit(`{"spec":{"routing":{"scope":null}}}`))
	s.owners(t, 3)
}
