package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

func read(t *testing.T, spec string) *v1alpha1.CacheNode {
	t.Helper()
	text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\n" +
		"spec:\n" + originOf(spec) + spec
	cacheNode, err := file.One("-", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return cacheNode
}

// originOf returns an origin, unless the spec has one.
func originOf(spec string) string {
	if strings.Contains(spec, "origin:") {
		return ""
	}
	return "  origin: {servers: [{host: a.example.com}]}\n"
}

const three = `
  replicas: 2
  disks: [{name: disk1, size: 1Ti}, {name: disk2, size: 1Ti}, {name: disk3, size: 1Ti}]`

func TestPlanNamesEachChange(t *testing.T) {
	tests := map[string]struct {
		next string
		used map[string]int64
		want string
	}{
		"nothing": {three, nil, "Keys: none moves\nPods: none is replaced, and nginx goes on as it is\n"},
		"one disk more, of which nothing is known": {
			`
  replicas: 2
  disks: [{name: disk1, size: 1Ti}, {name: disk2, size: 1Ti}, {name: disk3, size: 1Ti}, {name: disk4, size: 1Ti}]`,
			nil,
			`
Keys: 25.90% of them move (any plan must move 25.00%)
  FROM    TO      SHARE   BYTES
  disk1   disk4   9.05%   -
  disk2   disk1   0.49%   -
  disk2   disk3   0.19%   -
  disk2   disk4   7.65%   -
  disk3   disk1   0.22%   -
  disk3   disk4   8.30%   -
Fields that change, and what each does by itself:
  FIELD              FROM   TO    BY ITSELF
  spec.disks.disk4   -      set   the pods are replaced
Pods: edge-0, edge-1 are replaced, one after another, in this order; the disks that stay keep their files
Claims: one of 1Ti for disk4 is created for each pod
`,
		},
		"a heavier disk, above the limit": {
			`
  replicas: 3
  rollout: {maxKeyMovement: 10}
  disks: [{name: disk1, size: 1Ti, weight: 2}, {name: disk2, size: 1Ti, weight: 1}, ` +
				`{name: disk3, size: 1Ti, weight: 1}]`,
			map[string]int64{"disk1": 100 << 30, "disk2": 100 << 30, "disk3": 100 << 30},
			`
Keys: 16.72% of them move (any plan must move 16.66%), about 50.2 GiB of 300.0 GiB (estimated, up to a minute old)
  FROM    TO      SHARE   BYTES
  disk2   disk1   8.27%   24.8 GiB
  disk2   disk3   0.06%   184 MiB
  disk3   disk1   8.39%   25.2 GiB
This is more than rollout.maxKeyMovement, 10%: it waits for the annotation
  cachenode.io/acknowledged-key-movement: "3f4df6cafa2b"
Fields that change, and what each does by itself:
  FIELD                         FROM   TO   BY ITSELF
  spec.disks.disk1.weight       -      2    nginx reloads
  spec.disks.disk2.weight       -      1    nginx reloads
  spec.disks.disk3.weight       -      1    nginx reloads
  spec.replicas                 2      3    pods are created or removed
  spec.rollout.maxKeyMovement   -      10   no pod is touched
Pods: none is replaced; nginx reloads in each, without a restart; edge-2 is created
`,
		},
		"a limit that leaves nothing for the memory tier": {
			three + `
  pod: {resources: {limits: {memory: 48Mi}}}`, nil, `
Keys: none moves
Fields that change, and what each does by itself:
  FIELD                              FROM   TO     BY ITSELF
  spec.pod.resources.limits.memory   -      48Mi   the pods are replaced
Chosen: memoryTier is off: the memory limit, or half of the memory request, leaves too little for it
Pods: edge-0, edge-1 are replaced, one after another, in this order; the disks that stay keep their files
`,
		},
		"a disk less, and a larger one": {
			`
  replicas: 1
  disks: [{name: disk1, size: 2Ti, weight: 1}, {name: disk2, size: 1Ti, weight: 1}]`, nil, `
Keys: 33.84% of them move (any plan must move 33.33%)
  FROM    TO      SHARE    BYTES
  disk1   disk2   0.51%    -
  disk3   disk1   17.17%   -
  disk3   disk2   16.16%   -
Fields that change, and what each does by itself:
  FIELD                     FROM   TO    BY ITSELF
  spec.disks.disk1.size     1Ti    2Ti   the pods are replaced
  spec.disks.disk1.weight   -      1     nginx reloads
  spec.disks.disk2.weight   -      1     nginx reloads
  spec.disks.disk3          set    -     the pods are replaced
  spec.replicas             2      1     pods are created or removed
Pods: edge-0 is replaced; the disks that stay keep their files; edge-1 is removed
Claims: those for disk1 grow from 1Ti to 2Ti if their class allows expansion
Claims: those for disk3 are deleted, and what is cached there with them
`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			next := read(t, tt.next)
			r, err := compare(read(t, three), apart, next, tt.used)
			if err != nil {
				t.Fatal(err)
			}
			writeText(&out, r, next.Spec.Rollout.MaxKeyMovement)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// apart describes running pods that do not share keys unless the spec says so.
var apart = running{tier: effective.Before{Routing: v1alpha1.RoutingLocal}}

// TestPlanOfPods checks that plan prints how many keys get another owner if pods share keys. plan also prints for how
// long the new owner fetches objects of these keys from the previous owner.
func TestPlanOfPods(t *testing.T) {
	const sharded = three + "\n  routing: {mode: Sharded, handover: 5m}"
	more := strings.Replace(sharded, "replicas: 2", "replicas: 3", 1)
	const want = "Owners: 33.33% of the keys get another pod (any plan must move 33.33%), " +
		"which fills them from the previous one for 5m\n"
	for name, tt := range map[string]struct {
		now, next string
		want      bool
	}{
		"a pod more":            {sharded, more, true},
		"a pod less":            {more, sharded, true},
		"as many":               {sharded, sharded, false},
		"the mode changes":      {three, more, false},
		"a pod more with Local": {three, strings.Replace(three, "replicas: 2", "replicas: 3", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r, err := compare(read(t, tt.now), apart, read(t, tt.next), nil)
			if err != nil {
				t.Fatal(err)
			}
			writeText(&out, r, nil)
			text := out.String()
			if got := strings.Contains(text, want); got != tt.want || strings.Contains(text, "Owners") != tt.want {
				t.Errorf("%q is in it: %t\n%s", want, got, text)
			}
		})
	}
}

func TestOffline(t *testing.T) {
	dir := t.TempDir()
	scaled := strings.Replace(three, "replicas: 2", "replicas: 4", 1)
	for name, spec := range map[string]string{"old.yaml": three, "new.yaml": scaled} {
		text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\n" +
			"spec:\n  origin: {servers: [{host: a.example.com}]}\n" + spec
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := New()
	var out strings.Builder
	command.SetOut(&out)
	command.SetArgs([]string{"-f", filepath.Join(dir, "new.yaml"), "--from", filepath.Join(dir, "old.yaml")})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	want := "Keys: none moves\n" +
		"Owners: 50.00% of the keys get another pod (any plan must move 50.00%), " +
		"which fills them from the previous one for 10m\n" +
		"Fields that change, and what each does by itself:\n" +
		"  FIELD           FROM   TO   BY ITSELF\n" +
		"  spec.replicas   2      4    pods are created or removed\n" +
		"Pods: none is replaced; nginx reloads in each, without a restart; edge-2, edge-3 are created\n"
	if out.String() != want {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
}

// TestFormerImage checks that a manifest without an image does not change the former default image. API servers once
// wrote this default into specs.
func TestFormerImage(t *testing.T) {
	for image, want := range map[string]int{effective.FormerImage: 0, "mirror.example.com/nginx:1.30.6": 1} {
		r, err := compare(read(t, three+"\n  pod: {image: '"+image+"'}"), running{}, read(t, three), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Fields) != want {
			t.Errorf("from %s: %+v, want %d changes", image, r.Fields, want)
		}
	}
}

// TestReplicasOfAnAutoscaler checks that a manifest without spec.replicas does not change the number of replicas.
func TestReplicasOfAnAutoscaler(t *testing.T) {
	write := func(name, replicas string) string {
		path := filepath.Join(t.TempDir(), name)
		text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\n" +
			"spec:\n  origin: {servers: [{host: a.example.com}]}\n  disks: [{name: disk1, size: 1Ti}]\n" + replicas
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	command := New()
	var out, warnings strings.Builder
	command.SetOut(&out)
	command.SetErr(&warnings)
	command.SetArgs([]string{"-f", write("new.yaml", ""), "--from", write("old.yaml", "  replicas: 3\n")})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "removed") || !strings.Contains(warnings.String(), "no spec.replicas") {
		t.Errorf("it says\n%s%s", out.String(), warnings.String())
	}
}
