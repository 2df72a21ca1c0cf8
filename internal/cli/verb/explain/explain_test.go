package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

const edge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}]
  origin: {servers: [{host: origin.example.com, port: 80}]}
  hosts: [cdn.example.com]
`

func decode(t *testing.T) *v1alpha1.CacheNode {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(edge))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	return cacheNode
}

func TestKeyOf(t *testing.T) {
	for argument, want := range map[string]string{
		"http://CDN.example.com":              "http://cdn.example.com/",
		"https://cdn.example.com:8443/a%20":   "https://cdn.example.com/a%20",
		"http://cdn.example.com.:80/":         "http://cdn.example.com/",
		"http://cdn.example.com#a/b":          "http://cdn.example.com/",
		"http://[::1]:8080/":                  "http://[::1]/",
		"http://cdn.example.com?x=1":          "http://cdn.example.com/?x=1",
		"http://cdn.example.com/a?b=c#d":      "http://cdn.example.com/a?b=c",
		"ftp://cdn.example.com/a":             "ftp://cdn.example.com/a",
		"any key":                             "any key",
		"generation=2 bytes=0-1048575 a.com/": "a.com/",
	} {
		if got := keyOf(decode(t), "GET", argument); got != want {
			t.Errorf("%s has key %q, want %q", argument, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	cacheNode := decode(t)
	const key = "http://cdn.example.com/a"
	p := locate(cacheNode, key)
	other := map[string]string{"disk1": "disk2", "disk2": "disk1"}[p.disk]
	var copies []held
	for name, disks := range map[string][]v1alpha1.PodDiskStatus{
		"fine":  nil,
		"moved": {{Name: p.disk, State: "Failed"}},
		"none":  {{Name: p.disk, State: "Failed"}, {Name: other, State: "Drained"}},
	} {
		disk, moved := diskIn(cacheNode, v1alpha1.PodStatus{Disks: disks}, key)
		want := map[string]string{"fine": p.disk, "moved": other, "none": agentapi.NoDisk}[name]
		if disk != want || moved != (name != "fine") {
			t.Errorf("%s: the key is on %s (moved: %t), want %s", name, disk, moved, want)
		}
	}
	fresh, expired := time.Unix(4102444800, 0), time.Unix(1700000000, 0)
	on := func(pod, disk string, c objects.Copy) held {
		return held{pod: pod, disk: disk, Copy: c, slice: 1 << 20}
	}
	until := func(end time.Time, renewed, errors time.Duration) (f objects.Freshness) {
		f.Until = end
		if renewed > 0 {
			f.WhileRenewed = end.Add(renewed)
		}
		if errors > 0 {
			f.OnErrors = end.Add(errors)
		}
		return f
	}
	moved := on("edge-1", other, objects.Copy{})
	moved.moved = true
	copies = append(copies,
		on("edge-0", p.disk, objects.Copy{Bytes: 1234, File: until(fresh, 0, 0)}), moved,
		held{pod: "edge-2", disk: p.disk, problem: "forbidden"},
		held{pod: "edge-3", disk: p.disk, older: true},
		on("edge-4", p.disk, objects.Copy{Bytes: 1234, File: until(expired, 0, 0)}),
		on("edge-5", p.disk, objects.Copy{Bytes: 1234, File: until(expired, 30*time.Second, 24*time.Hour)}),
		on("edge-6", p.disk, objects.Copy{Bytes: 1234, File: until(expired, 0, time.Hour), Memory: until(fresh, 0, 0)}),
		on("edge-7", p.disk, objects.Copy{Bytes: 99, Slices: 2, Length: 1<<20 + 1, File: until(fresh, 0, 0)}))
	var out strings.Builder
	if err := write(&out, p, copies); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("DISK2", p.disk, "DISK1", other,
		"BOTH WINDOWS",
		"expired: served until 2023-11-14T22:13:50Z while it is renewed, until 2023-11-15T22:13:20Z on errors",
		"ONE, AND MEMORY",
		"expired: served until 2023-11-14T23:13:20Z on errors; in memory too, until 2100-01-01T00:00:00Z",
	).Replace(`
POD      DISK    CACHED          BYTES   VALID UNTIL            NOTE
edge-0   DISK2   yes             1234    2100-01-01T00:00:00Z   -
edge-1   DISK1   no              -       -                      DISK2 is out of use in this pod
edge-2   DISK2   unknown         -       -                      forbidden
edge-3   DISK2   no              -       -                      does not run what the spec asks for: it may be elsewhere
edge-4   DISK2   yes             1234    2023-11-14T22:13:20Z   expired: the origin is asked
edge-5   DISK2   yes             1234    2023-11-14T22:13:20Z   BOTH WINDOWS
edge-6   DISK2   yes             1234    2023-11-14T22:13:20Z   ONE, AND MEMORY
edge-7   DISK2   2 of 2 slices   99      2100-01-01T00:00:00Z   -
`)
	_, rows, _ := strings.Cut(out.String(), "\n\n")
	if diff := cmp.Diff(want, "\n"+rows); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	told := summarize(p, copies)
	if len(told.Pods) != len(copies) || told.Disk != p.disk || !strings.Contains(told.File, "/cachenode/cache/") {
		t.Errorf("programs get %+v", told)
	}
	wantPod := podSummary{
		Pod: "edge-7", Disk: p.disk, Cached: true, Bytes: 99, Slices: 2, AllSlices: 2, ValidUntil: new(fresh.UTC()),
	}
	if diff := cmp.Diff(wantPod, told.Pods[len(copies)-1]); diff != "" {
		t.Errorf("programs get (-want +got)\n%s", diff)
	}
	lines := []string{"Key:   " + key, "Disk:  " + p.disk + ", which has 50.00% of the keys", "/cachenode/cache/"}
	for _, line := range lines {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
}
