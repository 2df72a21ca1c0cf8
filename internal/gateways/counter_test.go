package gateways

import (
	"fmt"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestEndlessConditions checks that the decision ends, although each new table has other routes with too many
// conditions: in the end, the counter refuses all routes of the namespace with the most, and only those.
func TestEndlessConditions(t *testing.T) {
	t.Parallel()
	c := conditionCounter{has: map[string]int{}}
	for i := range maxTimes + 1 {
		if own := c.has["other/few"]; own > 1 {
			t.Fatalf("table %d: the other namespace has %d conditions", i, own)
		}
		large := routes.Route{Namespace: "team", Name: fmt.Sprint("r", i)}
		for j := range maxConditions/shares + 1 {
			path := routes.Path{Value: fmt.Sprintf("/%d%%20", j), Exact: true}
			large.Rules = append(large.Rules, routes.Rule{Matches: []routes.Match{{Path: path}}})
		}
		few := routes.Route{Namespace: "other", Name: "few", Rules: large.Rules[:1]}
		table := routes.Table{
			Routes: []routes.Route{large, few},
			Listeners: []routes.Listener{{PodPort: 20000, Attached: []routes.Attachment{
				{Route: large.ID(), Hosts: []routes.Host{"a.example.com"}},
				{Route: few.ID(), Hosts: []routes.Host{"b.example.com"}},
			}}},
		}
		if !c.exceeds(table, newRoom(Fleet{}, &c)) {
			t.Fatalf("table %d: not too many conditions", i)
		}
		want := maxConditions/shares + 1
		if i == maxTimes {
			want = maxConditions + 1
		}
		if got := c.of(large.ID(), 0); got != want {
			t.Errorf("table %d: %s has %d conditions, want %d", i, large.ID(), got, want)
		}
		if got := c.of(few.ID(), 0); got != 1 {
			t.Errorf("table %d: %s has %d conditions, want 1", i, few.ID(), got)
		}
	}
}
