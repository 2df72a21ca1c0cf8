package agentapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

var now = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// honest returns a report with a value in every field.
func honest() agentapi.Report {
	return agentapi.Report{
		AgentVersion: "v0.2.0", NginxVersion: "1.30.6", Renderer: 7, Revision: "0123456789ab", Since: now.Add(-time.Hour),
		Refusal: &agentapi.Refusal{
			Revision: "ba9876543210", Message: "nginx: [emerg] unknown directive", Retry: "2026-11-22T10:00:00Z",
		},
		Problem: "revision: is for newer agents", Lowered: "disk1: maxSize is 1Gi", OpenFiles: 1 << 20,
		Disks: []agentapi.DiskReport{{
			Name: "disk1", State: "Failed", Reason: "ForeignCache",
			Message: "holds the cache of CacheNode default/other: ü", Since: now,
			Share: 3333, ForeignOwner: "default/other", Size: 1 << 40, UsedPercent: 88,
			CacheBytes: new(int64(1 << 30)), NeedsNewPod: true,
			FileSystem: &effective.FileSystem{Type: "xfs", BlockSize: 4096, ReadAhead: 131072, Options: "rw,relatime"},
		}, {Name: "disk2", State: "Healthy", Share: 6667}},
	}
}

func TestSanitize(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := map[string]struct{ change, want func(*agentapi.Report) }{
		"an honest one": {func(*agentapi.Report) {}, func(*agentapi.Report) {}},
		"a long revision": {
			func(r *agentapi.Report) { r.Revision = strings.Repeat("a", 65) },
			func(r *agentapi.Report) { r.Revision = "" },
		},
		"a revision of words": {
			func(r *agentapi.Report) { r.Revision = "a b" },
			func(r *agentapi.Report) { r.Revision = "" },
		},
		"a refusal of nothing": {
			func(r *agentapi.Report) { r.Refusal.Revision = long },
			func(r *agentapi.Report) { r.Refusal = nil },
		},
		"long texts": {
			func(r *agentapi.Report) { r.Problem, r.Disks[0].Message = long, long },
			func(r *agentapi.Report) { r.Problem, r.Disks[0].Message = long[:1024], long[:512] },
		},
		"a long refusal": {
			func(r *agentapi.Report) { r.Refusal.Message, r.Refusal.Retry = long, long },
			func(r *agentapi.Report) { r.Refusal.Message, r.Refusal.Retry = long[:2048], "" },
		},
		"what terminals act on": {
			func(r *agentapi.Report) { r.Problem = "a\x1b[2Jb\r\n\u202ec\x00\u009b" },
			func(r *agentapi.Report) { r.Problem = "a[2Jb  c" },
		},
		"a reason of words": {
			func(r *agentapi.Report) { r.Disks[0].Reason = "no reason" },
			func(r *agentapi.Report) { r.Disks[0].Reason = "" },
		},
		"a state that no status has room for": {
			func(r *agentapi.Report) { r.Disks[0].State = "AStateOf17Letters" },
			func(r *agentapi.Report) { r.Disks = r.Disks[1:] },
		},
		"a disk of no name": {
			func(r *agentapi.Report) { r.Disks[0].Name = "" },
			func(r *agentapi.Report) { r.Disks = r.Disks[1:] },
		},
		"a disk twice": {
			func(r *agentapi.Report) { r.Disks[1].Name = "disk1" },
			func(r *agentapi.Report) { r.Disks = r.Disks[:1] },
		},
		"a share of more than all": {
			func(r *agentapi.Report) { r.Disks[0].Share, r.Disks[1].Share = 1<<40, -1 },
			func(r *agentapi.Report) { r.Disks[0].Share, r.Disks[1].Share = 10000, 0 },
		},
		"sizes out of the world": {
			func(r *agentapi.Report) { r.Disks[0].Size, r.Disks[0].UsedPercent = -5, 1000 },
			func(r *agentapi.Report) {
				r.Disks[0].Size, r.Disks[0].UsedPercent, r.Disks[0].CacheBytes = 0, 100, new(int64(0))
			},
		},
		"an owner of no form": {
			func(r *agentapi.Report) { r.Disks[0].ForeignOwner = "a/b,disk2=c/d" },
			func(r *agentapi.Report) { r.Disks[0].ForeignOwner = "" },
		},
		"times to come": {
			func(r *agentapi.Report) { r.Since, r.Disks[0].Since = now.Add(25*time.Hour), time.Unix(1<<40, 0) },
			func(r *agentapi.Report) { r.Since, r.Disks[0].Since = time.Time{}, time.Time{} },
		},
		"a file system of words": {
			func(r *agentapi.Report) { r.Disks[0].FileSystem.Type = "x f s" },
			func(r *agentapi.Report) { r.Disks[0].FileSystem.Type = "" },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, want := honest(), honest()
			tt.change(&got)
			tt.want(&want)
			if diff := cmp.Diff(want, agentapi.Sanitize(got, now)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestClient checks that the client returns an error for a report that is too large or lists too many disks. The client
// must not need much memory for such a report.
func TestClient(t *testing.T) {
	disks := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"name":"disk%d","status":"Healthy"}`, i))
		}
		return `{"revision":"ab","disks":[` + strings.Join(list, ",") + `]}`
	}
	for name, tt := range map[string]struct {
		body string
		want int    // disks
		err  string // "" for none
	}{
		"one disk":           {disks(1), 1, ""},
		"as many as may be":  {disks(32), 32, ""},
		"one too many":       {disks(33), 0, "more than 32 disks"},
		"very many of none":  {`{"disks":[` + strings.Repeat("{},", 80_000) + `{}]}`, 0, "more than 32 disks"},
		"too large":          {`{"problem":"` + strings.Repeat("x", 300<<10) + `"}`, 0, "unexpected EOF"},
		"no list":            {`{"disks":{"a":1}}`, 0, "the agent's report"},
		"nothing":            {`{"disks":null}`, 0, ""},
		"what is of no form": {`{"disks":[{"name":"A","status":"Healthy"}]}`, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			client := agentclient.New(server.Client().Transport.(*http.Transport).TLSClientConfig)
			report, err := client.Report(t.Context(), server.Listener.Addr().String())
			if len(report.Disks) != tt.want || tt.err == "" && err != nil ||
				tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%d disks, error %v; want %d, %q", len(report.Disks), err, tt.want, tt.err)
			}
		})
	}
}

func FuzzSanitize(f *testing.F) {
	text, err := json.Marshal(honest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"problem":"\u001b[31m","disks":[{},{"name":"a","status":"B","share":-1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var r agentapi.Report
		if json.Unmarshal([]byte(text), &r) != nil {
			t.Skip("not JSON")
		}
		clean := agentapi.Sanitize(r, now)
		if diff := cmp.Diff(clean, agentapi.Sanitize(clean, now)); diff != "" {
			t.Errorf("what was sanitized is not clean:\n%s", diff)
		}
		if len(clean.Disks) > 32 || len(clean.Revision) > 64 {
			t.Errorf("%d disks, revision %q", len(clean.Disks), clean.Revision)
		}
		for _, d := range clean.Disks {
			for _, text := range []string{d.Name, string(d.State), string(d.Reason), d.Message} {
				if !utf8.ValidString(text) || len(text) > 512 || strings.ContainsFunc(text, unicode.IsControl) {
					t.Errorf("%q is kept", text)
				}
			}
		}
	})
}
