package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aPolicy lets a team's route store responses that the origin does not mark as fresh, and ignore an argument.
const aPolicy = `
apiVersion: cachenode.io/v1alpha1
kind: CachePolicy
metadata: {name: all}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: team-a}]
  query: {drop: [utm_*]}
  ttl: [{status: [200], default: 10m}]
`

// followsPolicy checks that the pods follow a team's policy while it exists, for its own route only, and that no
// request fails meanwhile.
func followsPolicy(t *testing.T, s *suite) {
	addresses := map[string]string{}
	for _, team := range []string{"team-a", "team-b"} {
		addresses[team] = "http://" + gatewayIs(t, team, "Programmed", "True")
	}
	fetch := func(team, tag string) map[string]int {
		var paths []string
		for i := range 50 {
			paths = append(paths, fmt.Sprintf("/objects/300/policy-%s-%d", tag, i))
		}
		return caches(s.fetch(t, 0, paths, "-base", addresses[team], "-host", "www.example.com"))
	}
	expect := func(what string, got map[string]int, cache string) {
		t.Helper()
		if diff := cmp.Diff(map[string]int{cache: 50}, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	loaded := []string{"/versions/policy/1", "/versions/policy/2?utm_a=b"}
	load := s.loadAt(t, addresses["team-a"], "www.example.com", loaded)
	kubectl(t, aPolicy, "apply", "-n", "team-a", "-f", "-")
	policyIs := func(want string) {
		t.Helper()
		within(t, time.Minute, func() string {
			got := kubectl(t, "", "get", "cachepolicy", "all", "-n", "team-a", "-o",
				`jsonpath={range .status.ancestors[*]}{.ancestorRef.name}{range .conditions[*]} {.type}={.status}{end}{end}`)
			if got != want {
				return got
			}
			return ""
		})
	}
	policyIs("team-a Accepted=True cachenode.io/Programmed=True")
	expect("with the policy", fetch("team-a", "with"), "MISS")
	expect("again", fetch("team-a", "with"), "HIT")
	expect("the other team", fetch("team-b", "with"), "MISS")
	expect("the other team again", fetch("team-b", "with"), "MISS")
	kubectl(t, "", "delete", "cachepolicy", "all", "-n", "team-a", "--wait")
	tries := 0
	within(t, time.Minute, func() string { // the pods may not have seen it yet
		tries++
		tag := fmt.Sprint("without-", tries)
		fetch("team-a", tag)
		if got := fetch("team-a", tag); got["MISS"] != 50 {
			return fmt.Sprint(got)
		}
		return ""
	})
	checkLoad(t, load.end())
}
