package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/output"
)

// TestPlanSaysWhatBecomesOfCachedObjects checks what plan prints about cached objects. If the cache no longer finds
// some objects after an edit, plan must not print that no key moves.
func TestPlanSaysWhatBecomesOfCachedObjects(t *testing.T) {
	t.Parallel()
	const cold = "  The caches hold about 300.0 GiB (estimated, up to a minute old).\n" +
		"  The origin is asked for every object again, and old files stay until they are evicted.\n"
	for name, tt := range map[string]struct {
		edit, says string
		want       outcome
	}{
		"nothing": {"", "Keys: none moves\n", nothing},
		"another key": {
			"\n  cache: {key: [Host, URI, Args]}",
			"Keys: all change, by spec.cache.key: every object gets a new key, so the cache is cold\n" + cold, loss,
		},
		"the key in another order": {"\n  cache: {key: [RequestURI, Host, Scheme]}", "Keys: none moves\n", changed},
		"slices": {
			"\n  cache: {slice: {size: 1Mi}}",
			"Keys: all change, by spec.cache.slice: every object gets new keys, so the cache is cold\n" + cold, loss,
		},
		"arguments": {
			"\n  cache: {query: {drop: [utm_source]}}",
			"Keys: some change, by spec.cache.query: " +
				"a URL gets a new key if the edit changes which of its arguments are part of the key\n", loss,
		},
		"pods share keys": {
			"\n  routing: {mode: Sharded}",
			"Keys: some change, by spec.routing.mode: pods no longer find what other pods have cached for the same key\n", loss,
		},
		"the origin": {
			"\n  origin: {servers: [{host: b.example.com}]}",
			"Keys: none moves\nCached objects: all stay, by spec.origin.servers: " +
				"nginx still serves the cached objects of the old origin; " +
				"purge them if the new origin has other content\n", changed,
		},
		"slices and a limit": {
			"\n  cache: {slice: {size: 1Mi}}\n  rollout: {maxKeyMovement: 10}",
			"  rollout.maxKeyMovement does not hold this up: it is about keys that move between disks.\n", loss,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := read(t, three+tt.edit)
			used := map[string]int64{"disk1": 100 << 30, "disk2": 100 << 30, "disk3": 100 << 30}
			r, err := compare(read(t, three), apart, next, used)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			writeText(&out, r, next.Spec.Rollout.MaxKeyMovement)
			if !strings.Contains(out.String(), tt.says) || r.Outcome != tt.want {
				t.Errorf("the outcome is %s, want %s; it must say\n%s\nand says\n%s", r.Outcome, tt.want, tt.says, &out)
			}
			if strings.Contains(out.String(), "none moves") != strings.HasPrefix(tt.says, "Keys: none moves") {
				t.Errorf("it says of the keys:\n%s", &out)
			}
		})
	}
}

// TestPlanForPrograms checks the JSON and the exit codes.
func TestPlanForPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, spec string) string {
		path := filepath.Join(dir, name)
		text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\n" +
			"spec:\n  origin: {servers: [{host: a.example.com}]}\n" + spec
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := file("old.yaml", three)
	for name, tt := range map[string]struct {
		edit string
		want outcome
		code int
	}{
		"nothing": {"", nothing, 0},
		"changes": {"\n  listen: {gzip: {enabled: true}}", changed, 2},
		"a loss":  {"\n  cache: {slice: {size: 1Mi}}", loss, 3},
	} {
		t.Run(name, func(t *testing.T) {
			command := New()
			var out strings.Builder
			command.SetOut(&out)
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs([]string{"-f", file("new.yaml", three+tt.edit), "--from", old, "-o", "json", "--exit-code"})
			err := command.Execute()
			code, isExit := errors.AsType[output.Exit](err)
			if (err != nil && !isExit) || int(code) != tt.code {
				t.Errorf("it ends with %v, want exit code %d", err, tt.code)
			}
			var told result
			if err := json.Unmarshal([]byte(out.String()), &told); err != nil {
				t.Fatal(err)
			}
			if told.Outcome != tt.want || told.Name != "edge" {
				t.Errorf("it says\n%s", &out)
			}
		})
	}

	// Scripts depend on these names.
	next := read(t, strings.Replace(three, "replicas: 2", "replicas: 3", 1)+"\n  rollout: {maxKeyMovement: 10}")
	next.Spec.Disks = next.Spec.Disks[:2]
	r, err := compare(read(t, three), apart, next, map[string]int64{"disk1": 100, "disk2": 100, "disk3": 100})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(`{
		"name": "edge", "outcome": "Loss", "acknowledge": "`+r.Acknowledge+`",
		"keys": {"ratio": 0.3384, "least": 0.3333, "bytes": 101, "cachedBytes": 300, "moves": [
			{"from": "disk1", "to": "disk2", "ratio": 0.0051, "bytes": 1},
			{"from": "disk3", "to": "disk1", "ratio": 0.1717, "bytes": 51},
			{"from": "disk3", "to": "disk2", "ratio": 0.1616, "bytes": 48}]},
		"fields": [
			{"path": "disks.disk3", "from": "set", "to": "-", "effect": "the pods are replaced"},
			{"path": "replicas", "from": "2", "to": "3", "effect": "pods are created or removed"},
			{"path": "rollout.maxKeyMovement", "from": "-", "to": "10", "effect": "no pod is touched"}],
		"pods": {"replaced": ["edge-0", "edge-1"], "created": ["edge-2"], "reload": false},
		"claims": [{"disk": "disk3", "action": "Delete"}]}`), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || r.Acknowledge == "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPlanOfEmptyCaches checks that plan prints no numbers of bytes if the agents have found nothing in the caches. The
// agents may not have measured the caches yet.
func TestPlanOfEmptyCaches(t *testing.T) {
	t.Parallel()
	const nothing = "nothing as far as the agents have measured, which they do once a minute"
	larger := strings.Replace(three, "{name: disk3, size: 1Ti}", "{name: disk3, size: 2Ti}", 1)
	for edit, want := range map[string]string{
		three + "\n  cache: {slice: {size: 1Mi}}": "The caches hold " + nothing + ".\n",
		larger: "move 16.67%), " + nothing + "\n",
	} {
		var out strings.Builder
		r, err := compare(read(t, three), apart, read(t, edit), map[string]int64{"disk1": 0, "disk2": 0, "disk3": 0})
		if err != nil {
			t.Fatal(err)
		}
		writeText(&out, r, nil)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in it:\n%s", want, out.String())
		}
	}
}
