package differential

import (
	"fmt"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shape is the shape of the cases in these tests.
var shape = Shape{Pods: 1, Sizes: []int{0, 1, 5000, 100_000}, Protocols: []Protocol{HTTP11}, Steps: 12, Strict: true}

func TestGenerateIsTheSameForASeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		first, second := fmt.Sprint(Generate(seed, shape)), fmt.Sprint(Generate(seed, shape))
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}

// TestPlayWithTheOriginItself checks that no answer that comes directly from the origin counts as a fault. So a fault
// that another test finds is a fault of the cache.
func TestPlayWithTheOriginItself(t *testing.T) {
	t.Parallel()
	origin := &Origin{}
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	answers, none := 0, 0
	for seed := range uint64(200) {
		path, c := fmt.Sprint("/", seed), Generate(seed, shape)
		client := &Client{Host: "www.example.com", Dial: func(int) (net.Conn, error) {
			return net.Dial("tcp", server.Listener.Addr().String())
		}}
		p := Player{
			URL: origin.Add(path, c), Do: func(q Request) Response {
				response := client.Do(path, q)
				if answers++; response.Status == 0 {
					none++
				}
				return response
			},
			Expire: func() {}, Purge: func() {}, Settle: func(string, int) {},
			IsKnown: func(f Fault) bool { return f.Response.Status == 0 }, // the origin closes the connection on purpose
		}
		p.Begin(Way{}, c)
		if f := p.Play(c.Steps); f != nil {
			t.Errorf("seed %d: %v\n%s", seed, f.Err, f.Story)
		}
		client.Close()
	}
	if none > answers/2 {
		t.Errorf("%d of %d requests had no answer", none, answers)
	}
}
