package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestStopsBetweenTheQuestions checks an owner that answers the lookup, but then does not send the object. A client
// waits only for the time of some probes, and not as long as for an origin, which has no limit here. If the owner does
// not have the object, its second response may take as long as an origin.
func TestStopsBetweenTheQuestions(t *testing.T) {
	t.Parallel()
	isOwner := func(r *http.Request) bool {
		return strings.HasPrefix(fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)), "127.0.1.2:")
	}
	lookup := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/absent") {
			w.WriteHeader(470)
			return
		}
		w.Header().Set("X-Accel-Redirect", r.Header.Get("X-CacheNode-Ask"))
	}
	longer := make(chan struct{}) // closed when nginx has given up waiting for an object that the owner has
	fetch := func(w http.ResponseWriter, r *http.Request) {
		status := "HIT"
		switch absent := strings.HasPrefix(r.URL.Path, "/absent"); {
		case isOwner(r) && !absent:
			<-r.Context().Done() // until nginx closes the connection
			close(longer)
			return
		case isOwner(r):
			<-longer
			status = "MISS"
		}
		w.Header().Set("X-CacheNode-Status", status)
		_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(".", 3000))
	}
	p, _ := fakePods(t, sharded(""), http.HandlerFunc(lookup), http.HandlerFunc(fetch),
		"proxy_read_timeout 10s;", "proxy_read_timeout 4s;", "proxy_read_timeout 75300ms;", "proxy_read_timeout 10h;")
	absent, found := owned(t, "/absent", 2, 1, 1)[0], owned(t, "/found", 2, 1, 1)[0]
	var fetched string
	done := make(chan struct{})
	go func() {
		defer close(done)
		fetched = how(p.get(t, 0, absent))
	}()
	if got := how(p.get(t, 0, found)); got != "standin HIT" {
		t.Errorf("an object that the owner has, but does not send: %s", got)
	}
	<-done
	if fetched != "peer MISS" {
		t.Errorf("an object that the owner does not have, and takes long to fetch: %s", fetched)
	}
}
