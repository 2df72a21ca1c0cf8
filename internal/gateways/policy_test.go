package gateways_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// cachePolicy returns a CachePolicy whose staleIfError identifies it. The targets are in the form of YAML, and age is
// in years.
func cachePolicy(name string, staleIfError, age int, targets string) string {
	return fmt.Sprintf(`
---
kind: CachePolicy
metadata: {name: %s, creationTimestamp: "%d-01-01T00:00:00Z"}
spec: {staleIfError: %ds, targetRefs: [%s]}
`, name, 2026-age, staleIfError, targets)
}

// targetRef returns a reference to a target.
func targetRef(kind, name, section string) string {
	ref := fmt.Sprintf("{group: gateway.networking.k8s.io, kind: %s, name: %s", kind, name)
	if section != "" {
		ref += ", sectionName: " + section
	}
	return ref + "}"
}

// twoListeners is a Gateway, and a route with a named rule that is attached to both of its listeners.
const twoListeners = `
kind: Gateway
metadata: {name: main}
spec:
  listeners:
  - {name: first, port: 80, protocol: HTTP}
  - {name: second, port: 80, protocol: HTTP, hostname: www.example.com}
---
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: main}]
  hostnames: [www.example.com]
  rules:
  - {name: named, matches: [{path: {value: /named}}], backendRefs: [{name: web, port: 80}]}
  - {matches: [{path: {value: /other}}], backendRefs: [{name: web, port: 80}]}
`

// policies returns which policy applies to each rule at each listener, in the form of "listener path policy". A policy
// is identified by its staleIfError.
func policies(table routes.Table) (list []string) {
	for _, v := range table.VirtualHosts(20000) {
		for _, c := range v.Candidates {
			policy := "none"
			if rules := table.Rules(c.Policy); rules != nil {
				policy = string(rules.StaleIfError)
			}
			list = append(list, fmt.Sprintf("%s %s %s", table.Listeners[v.Listener].Name, c.Path.Value, policy))
		}
	}
	return list
}

// TestNearestPolicy checks which policy applies to a rule, and which policies have no effect.
func TestNearestPolicy(t *testing.T) {
	t.Parallel()
	gateway, route := targetRef("Gateway", "main", ""), targetRef("HTTPRoute", "shop", "")
	listener, rule := targetRef("Gateway", "main", "second"), targetRef("HTTPRoute", "shop", "named")
	for name, tt := range map[string]struct {
		policies string
		want     []string
		count    int
	}{
		"none": {"", []string{"second /named none", "second /other none"}, 0},
		"a Gateway": {
			cachePolicy("a", 1, 0, gateway), []string{"second /named 1s", "second /other 1s"}, 1,
		},
		"a listener": {
			cachePolicy("a", 1, 0, gateway) + cachePolicy("b", 2, 0, listener),
			[]string{"second /named 2s", "second /other 2s"},
			2,
		},
		"a route": {
			cachePolicy("a", 1, 0, gateway) + cachePolicy("b", 2, 0, listener) + cachePolicy("c", 3, 0, route),
			[]string{"second /named 3s", "second /other 3s"},
			1,
		},
		"a rule": {
			cachePolicy("a", 1, 0, gateway) + cachePolicy("d", 4, 0, rule),
			[]string{"second /named 4s", "second /other 1s"},
			2,
		},
		"a rule of a route": {
			cachePolicy("c", 3, 0, route) + cachePolicy("d", 4, 0, rule), []string{"second /named 4s", "second /other 3s"}, 2,
		},
		"an older one": {
			cachePolicy("a", 1, 0, route) + cachePolicy("b", 2, 1, route), []string{"second /named 2s", "second /other 2s"}, 1,
		},
		"of the same age": {
			cachePolicy("b", 2, 0, route) + cachePolicy("a", 1, 0, route), []string{"second /named 1s", "second /other 1s"}, 1,
		},
		"two targets": {
			cachePolicy("a", 1, 0, gateway+","+rule) + cachePolicy("b", 2, 0, route),
			[]string{"second /named 1s", "second /other 2s"},
			2,
		},
		"no such targets": {
			cachePolicy("a", 1, 0, strings.Join([]string{
				targetRef("HTTPRoute", "main", ""), targetRef("Gateway", "shop", ""), targetRef("HTTPRoute", "shop", "first"),
				targetRef("Gateway", "main", "named"),
			}, ",")), []string{"second /named none", "second /other none"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := decoded(t, gateways.Decide(state(t, twoListeners+tt.policies)).Table)
			if diff := cmp.Diff(tt.want, policies(table)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			used := map[string]bool{}
			for _, l := range table.Listeners {
				used[l.Policy] = true
			}
			for _, r := range table.Routes[0].Rules {
				used[r.Policy] = true
			}
			for id := range table.Policies {
				if !used[id] {
					t.Errorf("the policy %s is in the table, and nothing has it", id)
				}
			}
			if len(table.Policies) != tt.count {
				t.Errorf("%d policies are in the table, want %d", len(table.Policies), tt.count)
			}
		})
	}
}

// TestPolicyStatus checks what the status of a policy says.
func TestPolicyStatus(t *testing.T) {
	t.Parallel()
	route := targetRef("HTTPRoute", "shop", "")
	for name, tt := range map[string]struct {
		policy string
		// more contains other policies.
		more   string
		change func(*gateways.State)
		// want contains the kind and the name of each ancestor, with the reasons of its conditions.
		want []string
	}{
		"a route":    {policy: route, want: []string{"Gateway main: Accepted, Programmed"}},
		"a Gateway":  {policy: targetRef("Gateway", "main", ""), want: []string{"Gateway main: Accepted, Programmed"}},
		"a listener": {policy: targetRef("Gateway", "main", "first"), want: []string{"Gateway main: Accepted, Programmed"}},
		"a rule":     {policy: targetRef("HTTPRoute", "shop", "named"), want: []string{"Gateway main: Accepted, Programmed"}},
		"both": {
			policy: route + "," + targetRef("Gateway", "main", ""), want: []string{"Gateway main: Accepted, Programmed"},
		},
		"no rule": {
			policy: targetRef("HTTPRoute", "shop", "first"), want: []string{"Gateway main: TargetNotFound, Invalid"},
		},
		"no listener": {
			policy: targetRef("Gateway", "main", "named"), want: []string{"Gateway main: TargetNotFound, Invalid"},
		},
		"no route": {policy: targetRef("HTTPRoute", "none", ""), want: []string{"HTTPRoute none: TargetNotFound, Invalid"}},
		"no Gateway": {
			policy: route + "," + targetRef("Gateway", "none", ""),
			want:   []string{"Gateway main: Accepted, Programmed", "Gateway none: TargetNotFound, Invalid"},
		},
		"an older policy": {
			policy: route, more: cachePolicy("older", 9, 1, route), want: []string{"Gateway main: Conflicted, Invalid"},
		},
		"a Gateway of others": {
			policy: targetRef("Gateway", "theirs", ""), change: func(s *gateways.State) {
				s.Foreign = map[types.NamespacedName]bool{{Namespace: "edge", Name: "theirs"}: true}
			},
		},
		"pods lag behind": {policy: route, change: func(s *gateways.State) {
			s.Running.Tables[0].Routes = nil
		}, want: []string{"Gateway main: Accepted, Pending"}},
		"an agent does not know policies": {policy: route, change: func(s *gateways.State) {
			s.IgnoresPolicies = true
			s.Running.Tables[0] = gateways.Decide(*s).Table
		}, want: []string{"Gateway main: Accepted, Pending"}},
		"not accepted": {policy: route, change: func(s *gateways.State) {
			s.Fleet.Missing = "no fleet"
		}, want: []string{"Gateway main: Accepted, Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := state(t, twoListeners+cachePolicy("policy", 1, 0, tt.policy)+tt.more)
			if tt.change != nil {
				tt.change(&s)
			}
			var got []string
			for _, a := range gateways.Decide(s).Policies[types.NamespacedName{Namespace: "edge", Name: "policy"}] {
				accepted := meta.FindStatusCondition(a.Conditions, "Accepted")
				programmed := meta.FindStatusCondition(a.Conditions, "cachenode.io/Programmed")
				got = append(got, fmt.Sprintf("%s %s: %s, %s", *a.AncestorRef.Kind, a.AncestorRef.Name, accepted.Reason,
					programmed.Reason))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
