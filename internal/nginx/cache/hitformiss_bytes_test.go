package cache_test

import (
	"fmt"
	"io"
	"testing"
)

// TestNotesOfBytes checks that a note about one path does not switch the lock off for another path. The script reads
// all bytes that are not valid UTF-8 as the same character.
func TestNotesOfBytes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ noted, other string }{
		"a path":       {"/page\xfe", "/page\xff"},
		"an argument":  {"/page?a=\xfe", "/page?a=\xff"},
		"one of those": {"/page\xef\xbf\xbd", "/page\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &halved{arrived: make(chan struct{}, 10), released: make(chan struct{})}
			n := oneNginx(t, h)
			say := func(path, more string) {
				connection, err := n.Dial("127.0.0.1:8080")
				must(t, err)
				t.Cleanup(func() { _ = connection.Close() })
				_, err = fmt.Fprintf(connection,
					"GET %s HTTP/1.1\r\nHost: www.example.com\r\n%sConnection: close\r\n\r\n", path, more)
				must(t, err)
				if more != "" { // until it is answered
					_, err = io.ReadAll(connection)
					must(t, err)
				}
			}
			say(tt.noted, "Cookie: visitor=1\r\n")
			say(tt.other, "")
			<-h.arrived
			const others = 3
			before, _ := requestsOf(t, n)
			for range others {
				say(tt.other, "")
			}
			had(t, n, before, 2*others) // each asks the gateway once, and then continues to wait
			occupied(t, n, 2+others)
			if got := h.asked.Load(); got != 2 {
				t.Errorf("the origin got %d requests, want 2", got)
			}
			close(h.released)
		})
	}
}
