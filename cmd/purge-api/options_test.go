package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cachenode/cachenode-operator/internal/purgeapi"
)

func TestParse(t *testing.T) {
	t.Parallel()
	usual := purgeapi.Options{
		TTL: 60, BatchWindow: 25 * time.Millisecond, TargetsPerSecond: 2000, Burst: 4000, MaxWaiting: 2000,
	}
	for name, tt := range map[string]struct {
		args   string
		change func(*purgeapi.Options)
		err    string // what is printed; "" for none
	}{
		"defaults": {},
		"namespaces": {args: "--watch-namespaces=one,two", change: func(o *purgeapi.Options) {
			o.Namespaces = []string{"one", "two"}
		}},
		"audiences": {args: "--audiences=purge", change: func(o *purgeapi.Options) { o.Audiences = []string{"purge"} }},
		"limits": {args: "--targets-per-second=1 --burst=2 --max-waiting=3", change: func(o *purgeapi.Options) {
			o.TargetsPerSecond, o.Burst, o.MaxWaiting = 1, 2, 3
		}},
		"a time": {args: "--ttl-seconds-after-finished=1 --batch-window=0s", change: func(o *purgeapi.Options) {
			o.TTL, o.BatchWindow = 1, 0
		}},
		"half a pair":    {args: "--tls-cert-file=a", err: "set both or none"},
		"no burst":       {args: "--burst=0", err: "--burst is 0, want at least 1"},
		"a long window":  {args: "--batch-window=1m", err: "want 0s to 1s"},
		"no time":        {args: "--ttl-seconds-after-finished=0", err: "want 1 to 2592000"},
		"an unknown one": {args: "--colour=red", err: "usage: purge-api"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			o, err := parse(strings.Fields(tt.args), &out)
			if tt.err != "" {
				if err == nil || !strings.Contains(out.String(), tt.err) {
					t.Errorf("error %v, prints %q, want %q", err, out.String(), tt.err)
				}
				return
			}
			want := usual
			if tt.change != nil {
				tt.change(&want)
			}
			if diff := cmp.Diff(want, o.api, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}
