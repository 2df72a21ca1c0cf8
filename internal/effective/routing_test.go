package effective

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestRoutingMode checks that several pods of a new CacheNode share the keys. It also checks that an upgrade of the
// operator does not change the mode of an existing CacheNode.
func TestRoutingMode(t *testing.T) {
	const local, sharded = v1alpha1.RoutingLocal, v1alpha1.RoutingSharded
	replicas := func(n int32) v1alpha1.CacheNodeSpec { return v1alpha1.CacheNodeSpec{Replicas: &n} }
	with := func(spec v1alpha1.CacheNodeSpec, change func(*v1alpha1.CacheNodeSpec)) v1alpha1.CacheNodeSpec {
		change(&spec)
		return spec
	}
	tests := map[string]struct {
		spec   v1alpha1.CacheNodeSpec
		before Before
		want   v1alpha1.RoutingMode
		why    string
	}{
		"a new one of three pods": {replicas(3), Before{}, sharded, "several pods"},
		"a new one of one pod":    {replicas(1), Before{}, local, "one pod"},
		"one pod on each node": {
			with(replicas(1), func(s *v1alpha1.CacheNodeSpec) { s.Placement.PerNode = true }), Before{}, sharded, "several pods",
		},
		"its pods were for themselves": {replicas(3), Before{Serving: WithTier, Routing: local}, local, "set routing.mode"},
		"it had one pod":               {replicas(3), Before{Serving: WithTier}, sharded, "several pods"},
		"it shared":                    {replicas(1), Before{Serving: WithTier, Routing: sharded}, sharded, "already share"},
		"the spec says Local": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) { s.Routing.Mode = local }),
			Before{Routing: sharded},
			local, "spec.routing.mode",
		},
		"the spec says Sharded": {
			with(replicas(1), func(s *v1alpha1.CacheNodeSpec) { s.Routing.Mode = sharded }),
			Before{Routing: local},
			sharded, "spec.routing.mode",
		},
		"the spec says how": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) { s.Routing.TLS = v1alpha1.PeerTLSOff }),
			Before{Routing: local},
			sharded, "spec.routing says",
		},
		"the hand-over is for disks too": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) { s.Routing.Handover = "1m" }),
			Before{Routing: local},
			local, "do not share",
		},
		"too many pods": {replicas(200), Before{}, local, "at most 128"},
		"a port of theirs": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) { s.Listen.Port = new(int32(8088)) }),
			Before{},
			local, "port 8088",
		},
		"a port of theirs for routes": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) {
				s.Gateways, s.Listen.Port = &v1alpha1.Gateways{}, new(int32(8090))
			}), Before{}, local, "port 8090",
		},
		"a port that only routes need": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) { s.Listen.Port = new(int32(8090)) }),
			Before{},
			sharded, "several pods",
		},
		"a port of theirs for TLS": {
			with(replicas(3), func(s *v1alpha1.CacheNodeSpec) {
				s.Listen.TLS = &v1alpha1.ListenTLS{Port: new(int32(8089))}
			}), Before{}, local, "port 8089",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			mode, why := routingMode(tt.spec, tt.before)
			if mode != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("got %s: %s", mode, why)
			}
			if tt.spec.Routing == (v1alpha1.Routing{}) && mode == sharded { // one pod keeps the mode
				tt.spec.Replicas = new(int32(1))
				if again, why := routingMode(tt.spec, Before{Routing: mode}); again != mode {
					t.Errorf("then %s: %s", again, why)
				}
			}
		})
	}
}
