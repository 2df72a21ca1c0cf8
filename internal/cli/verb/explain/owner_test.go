package explain

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// TestOwner checks that explain names the pods to which a key belongs, and no pod with routing.mode Local.
func TestOwner(t *testing.T) {
	cacheNode := decode(t)
	const key = "http://cdn.example.com/a"
	handing := fleet.Of(3)
	handing.Previous = fleet.Of(1).Owners
	zoned := fleet.Fleet{Zones: map[string]fleet.Zone{
		"b": {Owners: fleet.Owners{Members: []int{1}}}, "": {Owners: fleet.Owners{Members: []int{0, 2}}},
	}}
	for name, tt := range map[string]struct {
		mode v1alpha1.RoutingMode
		f    fleet.Fleet
		want string
	}{
		"Local":            {"", fleet.Of(3), ""},
		"one pod":          {v1alpha1.RoutingSharded, fleet.Of(1), "Owner: edge-0\n"},
		"nobody owns keys": {v1alpha1.RoutingSharded, fleet.Fleet{}, ""},
		"three pods":       {v1alpha1.RoutingSharded, fleet.Of(3), "Owner: edge-1; if it does not answer, edge-0\n"},
		"zones": {
			v1alpha1.RoutingSharded, zoned,
			"Owner in zone none: edge-0; if it does not answer, edge-2\nOwner in zone b: edge-1\n",
		},
		"during a handover": {v1alpha1.RoutingSharded, handing, "; it fills the object from edge-0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cacheNode.Spec.Routing.Mode = tt.mode
			p := locate(cacheNode, key)
			p.owned(cacheNode, tt.f)
			var out strings.Builder
			if err := write(&out, p, nil); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.want) || tt.want == "" && strings.Contains(out.String(), "Owner") {
				t.Errorf("%q is not in\n%s", tt.want, out.String())
			}
		})
	}
}

// TestOwnerWhenNew checks that a CacheNode from a file has the owners that the operator would choose for a new one.
func TestOwnerWhenNew(t *testing.T) {
	for name, tt := range map[string]struct {
		replicas int32
		routing  v1alpha1.Routing
		want     int
	}{
		"one pod":    {1, v1alpha1.Routing{}, 0},
		"three pods": {3, v1alpha1.Routing{}, 1},
		"Local":      {3, v1alpha1.Routing{Mode: v1alpha1.RoutingLocal}, 0},
		"in zones":   {3, v1alpha1.Routing{Scope: v1alpha1.ScopeZone}, 0},
	} {
		cacheNode := decode(t)
		cacheNode.Spec.Replicas, cacheNode.Spec.Routing = &tt.replicas, tt.routing
		p := locate(cacheNode, "http://cdn.example.com/a")
		p.ownedWhenNew(cacheNode)
		if len(p.owners) != tt.want {
			t.Errorf("%s: %d owners, want %d", name, len(p.owners), tt.want)
		}
	}
}
