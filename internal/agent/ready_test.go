package agent

import (
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// TestReady checks that a pod stays ready while clients hold all connections with half a request each. A pod whose
// nginx hangs or is gone is not ready.
func TestReady(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.write(p.paths.PodInfo+"/"+layout.CPULimitFile, "1000")
	p.offer(naming.StableKey, func(s *v1alpha1.CacheNodeSpec) {
		s.Listen.MaxConnections, s.Listen.HeaderTimeout = new(int32(64)), "1h"
	})
	p.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "origin")
	}))
	p.start()
	if p.agent.Ready(t.Context()) {
		t.Error("it is ready before nginx has started")
	}
	p.nginx.Start()
	p.eventually("it is ready", func() bool { return p.agent.Ready(t.Context()) })

	var held []io.Closer
	hold := func() { // opens more connections than nginx allows
		for range 100 {
			conn, err := p.nginx.Dial("127.0.0.1:8080")
			if err != nil {
				return
			}
			held = append(held, conn)
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: ")
		}
	}
	release := func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}
	t.Cleanup(release)
	p.eventually("all connections are taken", func() bool {
		hold()
		return !p.agent.answersHealth(t.Context()) && p.agent.isExhausted()
	})
	if !p.agent.Ready(t.Context()) {
		t.Error("the pod leaves its Service because of clients that send nothing")
	}
	release()
	p.eventually("there are connections again", func() bool { return p.agent.answersHealth(t.Context()) })

	signal := func(s syscall.Signal) {
		for _, pid := range p.nginx.Processes() {
			if err := syscall.Kill(pid, s); err != nil {
				t.Error(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	p.eventually("nginx hangs", func() bool { return !p.agent.answersHealth(t.Context()) })
	p.eventually("an nginx that hangs is not ready", func() bool {
		p.agent.mutex.Lock()
		p.agent.exhausted = time.Time{} // as if nginx had run out of connections long ago
		p.agent.mutex.Unlock()
		return !p.agent.Ready(t.Context())
	})
	signal(syscall.SIGCONT)
	p.eventually("it is ready again", func() bool { return p.agent.Ready(t.Context()) })
}
