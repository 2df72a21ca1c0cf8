package explain

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
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
		"http://CDN.example.com":            "http://cdn.example.com/",
		"https://cdn.example.com:8443/a%20": "https://cdn.example.com/a%20",
		"http://cdn.example.com?x=1":        "http://cdn.example.com/?x=1",
		"http://cdn.example.com/a?b=c#d":    "http://cdn.example.com/a?b=c",
		"ftp://cdn.example.com/a":           "ftp://cdn.example.com/a",
		"any key":                           "any key",
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
	header := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte("1234\n"), 5), 1700000000)
	size, valid := parse(header)
	copies = append(copies,
		held{pod: "edge-0", disk: p.disk, bytes: size, validTo: valid},
		held{pod: "edge-1", disk: other, moved: true},
		held{pod: "edge-2", disk: p.disk, problem: "forbidden"},
		held{pod: "edge-3", disk: p.disk, older: true})
	if size, valid := parse(nil); size != 0 || valid != (time.Time{}) {
		t.Errorf("no file is one of %d bytes, valid to %s", size, valid)
	}
	var out strings.Builder
	if err := write(&out, p, copies); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("DISK2", p.disk, "DISK1", other).Replace(`
POD      DISK    CACHED    BYTES   VALID UNTIL            NOTE
edge-0   DISK2   yes       1234    2023-11-14T22:13:20Z   -
edge-1   DISK1   no        -       -                      DISK2 is out of use in this pod
edge-2   DISK2   unknown   -       -                      forbidden
edge-3   DISK2   no        -       -                      does not run what the spec asks for: it may be elsewhere
`)
	_, rows, _ := strings.Cut(out.String(), "\n\n")
	if diff := cmp.Diff(want, "\n"+rows); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	lines := []string{"Key:   " + key, "Disk:  " + p.disk + ", which has 50.00% of the keys", "/cachenode/cache/"}
	for _, line := range lines {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
}
