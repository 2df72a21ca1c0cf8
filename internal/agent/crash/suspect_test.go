package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
)

func TestIsWhole(t *testing.T) {
	t.Parallel()
	const body, length = 400, 1000
	const twice, sliced = "Content-Length: 0\r\nContent-Length: 0\r\n", "content-length: 7\r\n"
	response := func(status, headers string) string { return "HTTP/1.1 " + status + "\r\n" + headers + "\r\n" }
	sized := response("200 OK", fmt.Sprintf("Content-Length: %d\r\n", length))
	for name, tt := range map[string]struct {
		response   string
		size, hole int64
		want       bool
	}{
		"whole":                           {sized, body + length, body + length, true},
		"a byte is missing":               {sized, body + length - 1, body + length - 1, false},
		"a byte too many":                 {sized, body + length + 1, body + length + 1, false},
		"no body":                         {sized, body, body, false},
		"a hole":                          {sized, body + length, 512, false},
		"a hole at the beginning":         {sized, body + length, 0, false},
		"chunked":                         {response("200 OK", ""), body + length, body + length, false},
		"two lengths":                     {response("200 OK", twice), body, body, false},
		"no number":                       {response("200 OK", "Content-Length: x\r\n"), body, body, false},
		"a negative length":               {response("200 OK", "Content-Length: -1\r\n"), body - 1, body - 1, false},
		"a slice":                         {response("206 Partial Content", sliced), body + 7, body + 7, true},
		"an empty body":                   {response("200 OK", "Content-Length: 0\r\n"), body, body, true},
		"204":                             {response("204 No Content", ""), body, body, true},
		"304, with the length of the 200": {response("304 Not Modified", "Content-Length: 9\r\n"), body, body, true},
		"no status":                       {"\r\n", body, body, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := cachefile.Header{Body: body, Response: []byte(tt.response)}
			if got := isWhole(h, tt.size, tt.hole); got != tt.want {
				t.Errorf("whole is %t, want %t", got, tt.want)
			}
		})
	}
}

// TestSuspects reads folders, beginning with the folder that changed last. It checks which files become suspects and
// how many folders are read.
func TestSuspects(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	type folder struct {
		changed time.Time
		files   map[string]time.Time
	}
	stored := folder{ago(10 * time.Minute), map[string]time.Time{
		"last": ago(10 * time.Minute), "at the limit": ago(12 * time.Minute), "older": ago(12*time.Minute + time.Second),
	}}
	old := folder{ago(13 * time.Minute), map[string]time.Time{"old": ago(13 * time.Minute)}}
	for name, tt := range map[string]struct {
		folders []folder
		want    []string
		read    int
	}{
		"nothing":       {nil, nil, 0},
		"empty folders": {[]folder{{changed: now}, {changed: now}}, nil, 2},
		"one with old":  {[]folder{stored, old}, []string{"at the limit", "last"}, 1},
		"a removal since": {
			[]folder{{now, map[string]time.Time{"of long ago": ago(time.Hour)}}, stored, old},
			[]string{"at the limit", "last"},
			2,
		},
		"a slow response": {
			[]folder{stored, {ago(11 * time.Minute), map[string]time.Time{"begun early": ago(11 * time.Minute)}}, old},
			[]string{"at the limit", "begun early", "last"},
			2,
		},
		"a clock that was wrong": {
			[]folder{{now.Add(time.Hour), map[string]time.Time{"future": now.Add(time.Hour)}}, stored, old},
			[]string{"at the limit", "future", "last"},
			2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, read := suspects{now: now}, 0
			for _, f := range tt.folders {
				if !s.mayBeIn(f.changed) {
					break
				}
				read++
				for file, written := range f.files {
					s.add(file, written)
				}
			}
			got := s.paths()
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" || read != tt.read {
				t.Errorf("%d folders were read, want %d (-want +got):\n%s", read, tt.read, diff)
			}
		})
	}
}
