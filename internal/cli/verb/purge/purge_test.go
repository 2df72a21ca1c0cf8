package purge

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
)

// TestMistakes checks that mistakes are found before anything is sent.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"edge":                             "nothing to purge: give URLs, --prefix, --host, --tag or --all",
		"edge www.example.com/a":           `urls: "www.example.com/a": must begin with http:// or https://`,
		"edge --all --tag a":               "--all goes alone: remove the URLs, --prefix, --host and --tag",
		"edge --tag a --wait never":        `--wait is "never", want applied, settled or none`,
		"edge --tag a --ttl 0s":            "--ttl is 0s, want 1s to 720h",
		"edge --prefix https://a.example/": `prefixes: "https://a.example/": is a whole host: name it in hosts`,
		"edge --host a:80":                 `hosts: "a:80": must be the name of a host, without scheme, port and path`,
		"":                                 "requires at least 1 arg(s), only received 0",
	} {
		command := New()
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetErr(&out)
		command.SetArgs(strings.Fields(args))
		command.SilenceUsage, command.SilenceErrors = true, true
		if err := command.Execute(); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// TestSpec checks the spec that results from the flags.
func TestSpec(t *testing.T) {
	t.Parallel()
	o := &options{soft: true, wait: untilApplied, ttl: 90 * time.Second, output: &output.Flag{}}
	o.spec.CacheNode, o.spec.URLs = "edge", []string{"https://a.example.com/b"}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if o.spec.Mode != "Soft" || *o.spec.TTLSecondsAfterFinished != 90 {
		t.Errorf("the spec is %+v", o.spec)
	}
}

// TestTell checks that the verb prints what to expect until the purge settles. It also checks the output for programs.
func TestTell(t *testing.T) {
	t.Parallel()
	cp := &v1alpha1.CachePurge{Status: v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeApplied, Files: 2, Bytes: 10}}
	cp.Name = "edge-abc"
	const applied = "cachepurge/edge-abc applied in 0 pods after 1.5s: 2 files, 10 bytes\n"
	for name, tt := range map[string]struct {
		form, wait string
		phase      v1alpha1.PurgePhase
		want       string
	}{
		"applied": {"", untilApplied, v1alpha1.PurgeApplied, applied +
			"Until it settles, 10s after that, requests for what was purged go to the origin each time.\n"},
		"settled meanwhile": {"", untilApplied, v1alpha1.PurgeSettled, applied},
		"not waited for":    {"", untilNothing, v1alpha1.PurgeApplied, "cachepurge/edge-abc created\n"},
		"for programs": {
			"yaml", untilApplied, v1alpha1.PurgeApplied,
			"bytes: 10\nfiles: 2\nname: edge-abc\nphase: Applied\npods: 0\nseconds: 1.5\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp := cp.DeepCopy()
			cp.Status.Phase = tt.phase
			o := &options{wait: tt.wait, output: &output.Flag{Value: tt.form}}
			var out bytes.Buffer
			if err := o.tell(&out, cp, 1500*time.Millisecond, "10s"); err != nil || out.String() != tt.want {
				t.Errorf("error %v, it says\n%s\nwant\n%s", err, &out, tt.want)
			}
		})
	}
}

// TestAboutRoutes checks what the verb says about objects of HTTPRoutes, which not every purge names.
func TestAboutRoutes(t *testing.T) {
	t.Parallel()
	own := v1alpha1.Origin{Servers: []v1alpha1.OriginServer{{Host: new("origin.example.com")}}}
	type spec = v1alpha1.CachePurgeSpec
	for name, tt := range map[string]struct {
		gateways   bool
		origin     v1alpha1.Origin
		purge      spec
		says, errs bool
	}{
		"no Gateways":          {false, own, spec{URLs: []string{"http://a/"}}, false, false},
		"a site and Gateways":  {true, own, spec{Hosts: []string{"a"}}, true, false},
		"Gateways alone":       {true, v1alpha1.Origin{}, spec{Prefixes: []string{"http://a/b"}}, false, true},
		"Gateways, with a tag": {true, v1alpha1.Origin{}, spec{Hosts: []string{"a"}, Tags: []string{"b"}}, true, false},
		"Gateways, only a tag": {true, v1alpha1.Origin{}, spec{Tags: []string{"b"}}, false, false},
		"Gateways, and all":    {true, v1alpha1.Origin{}, spec{Everything: true}, false, false},
	} {
		cacheNode := &v1alpha1.CacheNode{Spec: v1alpha1.CacheNodeSpec{Origin: tt.origin}}
		if tt.gateways {
			cacheNode.Spec.Gateways = &v1alpha1.Gateways{}
		}
		note, err := aboutRoutes(cacheNode, tt.purge)
		if (note != "") != tt.says || (err != nil) != tt.errs {
			t.Errorf("%s: %q, %v", name, note, err)
		}
	}
}
