package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// TestBreakers checks when a circuit breaker of nginx counts as open.
func TestBreakers(t *testing.T) {
	fake := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	b := newBreakers(fake)
	want := func(what string, open map[string]int) {
		t.Helper()
		var lines strings.Builder
		if len(open) > 0 {
			lines.WriteString("# HELP cachenode_hop_breaker_open " + breakerHelp + "\n")
			lines.WriteString("# TYPE cachenode_hop_breaker_open gauge\n")
		}
		for labels, n := range open {
			fmt.Fprintf(&lines, "cachenode_hop_breaker_open{%s} %d\n", labels, n)
		}
		if err := testutil.CollectAndCompare(b, strings.NewReader(lines.String())); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const first, second = `disk="disk1",ordinal="1"`, `disk="disk2",ordinal="1"`
	report := func(tag, disk string, skips bool) {
		b.report(nginxlog.Request{Tag: tag, Owner: "1", Disk: disk, SkipsOwner: skips})
	}
	report(agentapi.TagPeer, "disk1", false)
	want("a request that was answered", nil)
	report(agentapi.TagStandIn, "disk1", true)
	report(agentapi.TagAlone, "disk2", true)
	report(agentapi.TagStandIn, "disk1", false)
	want("requests that skipped the owner, and a try that was not answered", map[string]int{first: 1, second: 1})
	report(agentapi.TagPeer, "disk2", false)
	want("a disk that answers again", map[string]int{first: 1, second: 0})
	fake.SetTime(fake.Now().Add(breakerTime))
	want("no request for ten seconds", map[string]int{first: 0, second: 0})
}
