package purge

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMistakes checks that mistakes are found before anything is sent.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"edge":                             "names nothing: set urls, prefixes, hosts, tags or everything",
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

// TestSpec checks what the flags become.
func TestSpec(t *testing.T) {
	t.Parallel()
	o := &options{soft: true, wait: untilApplied, ttl: 90 * time.Second}
	o.spec.CacheNode, o.spec.URLs = "edge", []string{"https://a.example.com/b"}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if o.spec.Mode != "Soft" || *o.spec.TTLSecondsAfterFinished != 90 {
		t.Errorf("the spec is %+v", o.spec)
	}
}
