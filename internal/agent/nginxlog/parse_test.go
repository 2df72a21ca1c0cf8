package nginxlog

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

func TestDatagrams(t *testing.T) {
	tests := map[string]struct {
		datagram, tag, text string
		ok                  bool
	}{
		"a request": {
			"<190>Nov 21 14:06:34 cached: disk1 HIT 200 1 0.000 0.001 -",
			"cached", "disk1 HIT 200 1 0.000 0.001 -", true,
		},
		"a colon":      {"<187>Nov  1 14:06:34 error: a: b", "error", "a: b", true},
		"no tag":       {"<190>Nov 21 14:06:34 cached", "", "", false},
		"no stamp":     {"<190>cached: x", "", "", false},
		"nothing":      {"", "", "", false},
		"no priority":  {"Nov 21 14:06:34 cached: x", "", "", false},
		"an empty one": {"<190>Nov 21 14:06:34 cached: ", "cached", "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tag, text, ok := Split(tt.datagram)
			if ok != tt.ok || (ok && (tag != tt.tag || text != tt.text)) {
				t.Errorf("got %q %q %t", tag, text, ok)
			}
		})
	}
}

// TestParseHop checks the parsing of lines about requests that another pod answered or should have answered.
func TestParseHop(t *testing.T) {
	answered := Request{Tag: "peer", Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 9, Owner: "1", StandIn: "12"}
	alone := answered
	alone.StandIn = ""
	skips := answered
	skips.SkipsOwner = true
	for name, tt := range map[string]struct {
		text string
		want Request
		ok   bool
	}{
		"the owner and its stand-in": {"disk1 HIT 200 9 - - - p1 p12 0", answered, true},
		"an owner that is not asked": {"disk1 HIT 200 9 - - - p1 p12 1", skips, true},
		"no stand-in":                {"disk1 HIT 200 9 - - - p1  0", alone, true},
		"no owner":                   {"disk1 HIT 200 9 - - - - p12 0", Request{}, false},
		"an invented pod":            {"disk1 HIT 200 9 - - - p1 x 0", Request{}, false},
		"a number too many":          {"disk1 HIT 200 9 - - - p01 p2 0", Request{}, false},
		"no pods":                    {"disk1 HIT 200 9 - - -", Request{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseRequest("peer", tt.text)
			if diff := cmp.Diff(tt.want, got); ok != tt.ok || ok && diff != "" {
				t.Errorf("ok is %t, want %t (-want +got):\n%s", ok, tt.ok, diff)
			}
		})
	}
}

func TestParseRequest(t *testing.T) {
	tests := map[string]struct {
		text string
		want Request
		ok   bool
	}{
		"a hit": {
			"disk1 HIT 200 1234 0.001 0.250 -",
			Request{
				Tag: "cached", Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 1234,
				FirstByte: time.Millisecond, Duration: 250 * time.Millisecond,
			},
			true,
		},
		"rejected": {
			"disk1 - 503 197 0.000 0.000 REJECTED",
			Request{Tag: "cached", Disk: "disk1", Status: 503, Bytes: 197, Rejected: true},
			true,
		},
		"no first byte": {
			"none - 499 0 - 3.000 PASSED",
			Request{Tag: "cached", Disk: "none", Status: 499, Duration: 3 * time.Second},
			true,
		},
		"a word too few":       {"disk1 HIT 200 1234 0.001 0.250", Request{}, false},
		"a status of words":    {"disk1 HIT ok 1234 0.001 0.250 -", Request{}, false},
		"negative bytes":       {"disk1 HIT 200 -1 0.001 0.250 -", Request{}, false},
		"no number":            {"disk1 HIT 200 1 NaN 0.250 -", Request{}, false},
		"an invented status":   {"disk1 LUCKY 200 1 0.001 0.250 -", Request{}, false},
		"an invented disk":     {"DISK{} HIT 200 1 0.001 0.250 -", Request{}, false},
		"a disk from nowhere:": {"- HIT 200 1 0.001 0.250 -", Request{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseRequest("cached", tt.text)
			if ok != tt.ok {
				t.Fatalf("ok is %t, want %t", ok, tt.ok)
			}
			if ok {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

// FuzzDatagram checks that no datagram crashes the parser, and that the parser accepts only values that are valid
// labels of metrics.
func FuzzDatagram(f *testing.F) {
	f.Add("<190>Nov 21 14:06:34 cached: disk1 HIT 200 1 0.000 0.001 -")
	f.Add(`<187>Nov 21 14:06:34 error: 2026/11/21 14:06:34 [crit] 1#1: *2 open() "/var/cache/cachenode/disk2/x" ` +
		`failed (5: Input/output error)`)
	f.Fuzz(func(t *testing.T, datagram string) {
		tag, text, ok := Split(datagram)
		if !ok {
			return
		}
		if r, ok := ParseRequest(tag, text); ok &&
			(!isName(r.Disk) || !isCacheStatus(r.Cache) || r.Bytes < 0 || r.Duration < 0 || r.FirstByte < 0) {
			t.Errorf("%q is taken for %+v", datagram, r)
		}
		if e, ok := ParseError(text); ok && e.Event != NoEvent && !isName(e.Disk) {
			t.Errorf("%q is taken for %+v", datagram, e)
		}
	})
}

type recorder struct {
	requests chan Request
	errors   chan Error
	unsafe   chan string
}

func (r recorder) Request(q Request) { r.requests <- q }
func (r recorder) Error(e Error)     { r.errors <- e }
func (r recorder) Unsafe(url string) { r.unsafe <- url }

func TestSocket(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	socket, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := recorder{make(chan Request, 1), make(chan Error, 1), make(chan string, 1)}
	done := make(chan struct{})
	go func() { Serve(ctx, socket, r); close(done) }()
	nginx, err := net.Dial("udp", socket.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"garbage",
		"<190>Nov 21 14:06:34 " + agentapi.TagUncached + ": disk1 - 200 1 0.000 0.001 PASSED",
		"<190>Nov 21 14:06:34 " + agentapi.TagUnsafe + ": https://a.com/b c: d",
		"<187>Nov 21 14:06:34 error: 2026/11/21 14:06:34 [warn] 1#1: x",
	} {
		if _, err := nginx.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-r.requests; got.Tag != agentapi.TagUncached || got.Disk != "disk1" {
		t.Errorf("got %+v", got)
	}
	if got := <-r.unsafe; got != "https://a.com/b c: d" {
		t.Errorf("got %q", got)
	}
	if got := <-r.errors; got.Text != "x" {
		t.Errorf("got %+v", got)
	}
	cancel()
	<-done
}
