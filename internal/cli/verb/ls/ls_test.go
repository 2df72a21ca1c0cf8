package ls

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

var now = time.Unix(1_800_000_000, 0)

// object returns an object that was received the given number of seconds before the variable now.
func object(key string, bytes int64, ago int) objects.Object {
	received := now.Add(-time.Duration(ago) * time.Second)
	return objects.Object{Key: key, Files: 1, Bytes: bytes, Received: received, ValidUntil: received.Add(time.Minute)}
}

var stores = []podobjects.Store{
	{Pod: "edge-0", Store: objects.Store{
		Name: "disk1", Total: objects.Total{Objects: 5, Files: 5, Bytes: 2000},
		Objects: []objects.Object{object("http://a/1", 2048, 10), object("http://a/3", 10, 90)},
	}},
	{Pod: "edge-1", Store: objects.Store{
		Name: "disk2", Total: objects.Total{Objects: 7, Files: 7, Bytes: 1000},
		Objects: []objects.Object{object("http://a/1", 3072, 20), object("http://a/2\x1b[31m", 20, 10)},
	}},
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for sort, want := range map[objects.Order][]string{
		objects.ByKey:  {"http://a/1", "http://a/2\x1b[31m"},
		objects.BySize: {"http://a/1", "http://a/2\x1b[31m"},
		objects.ByAge:  {"http://a/3", "http://a/1"},
	} {
		rows, total := merge(stores, objects.Query{Sort: sort, Most: 2})
		var keys []string
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		if diff := cmp.Diff(want, keys); diff != "" || total.Objects != 12 {
			t.Errorf("by %s, %+v:\n%s", sort, total, diff)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	rows, _ := merge(stores, objects.Query{Sort: objects.ByKey, Most: 3})
	var out bytes.Buffer
	write(&out, rows, now)
	want := `KEY             SIZE      FILES   AGE   FRESH   WHERE                       TAGS
http://a/1      3.0 KiB   1       20s   40s     edge-0/disk1 edge-1/disk2
http://a/2[31m   20 B      1       10s   50s     edge-1/disk2
http://a/3      10 B      1       90s   no      edge-0/disk1
`
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out.String())
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                      "requires at least 1 arg(s), only received 0",
		"edge --sort colour":    `--sort is "colour", want key, size or age`,
		"edge --limit 0":        "--limit is 0, want 1 to 10000",
		"edge --output yaml -n": "flag needs an argument: 'n' in -n",
		"edge --output yaml":    `--output is "yaml", want table or json`,
	} {
		command := New()
		command.SetOut(&bytes.Buffer{})
		command.SetErr(&bytes.Buffer{})
		command.SetArgs(strings.Fields(args))
		command.SilenceUsage, command.SilenceErrors = true, true
		if err := command.Execute(); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
