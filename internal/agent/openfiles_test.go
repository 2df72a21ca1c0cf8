package agent

import (
	"os"
	"regexp"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// TestOpenFiles checks which limit on open files the agent gives to nginx. While nginx runs, it is the limit of nginx's
// own container. Before that, it is the limit of the agent's container.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	const limit = 5000
	p.nginx.LimitFiles(limit)
	p.offer(naming.StableKey, nil)
	p.start()
	p.eventually("nginx may start", p.agent.Started)
	given := func() string {
		text, err := os.ReadFile(p.nginx.Root + layout.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		return string(regexp.MustCompile(`worker_rlimit_nofile \d+;`).Find(text))
	}
	if got, own := p.agent.Report().OpenFiles, podinfo.OpenFiles("/proc/self"); got != own || own <= limit {
		t.Errorf("before nginx runs: %d, want the agent's own %d, which is more than %d", got, own, limit)
	}
	p.nginx.Start()
	p.eventually("the limit is that of nginx", func() bool {
		return p.agent.Report().OpenFiles == limit && given() == "worker_rlimit_nofile 5000;"
	})
}
