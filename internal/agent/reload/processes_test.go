package reload

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

func TestParseStart(t *testing.T) {
	t.Parallel()
	const rest = " 1 4311 4311 0 -1 1077936128 512 0 0 0 2 1 0 0 20 0 THREADS 0 START 11718656 812 18446744073709551615"
	for name, tt := range map[string]struct {
		stat string
		want time.Duration
		err  error
	}{
		"a worker": {
			"4316 (nginx) S 1 4311 4311 0 -1 1 512 0 0 0 2 1 0 0 20 0 33 0 123456 11718656", 1234560 * time.Millisecond, nil,
		},
		"a name with parentheses": {
			"4316 (a) Z 1 (b) R 1 4311 4311 0 -1 1 512 0 0 0 2 1 0 0 20 0 1 0 7 11718656", 70 * time.Millisecond, nil,
		},
		"one that has ended": {"4316 (nginx) Z 1 4311 4311 0 -1 1 512 0 0 0 2 1 0 0 20 0 1 0 7 0", 0, errEnded},
		"one whose thread waits for a disk": {
			"4316 (nginx) Z 1 4311 4311 0 -1 1 512 0 0 0 2 1 0 0 20 0 2 0 7 0", 70 * time.Millisecond, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStart([]byte(tt.stat))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %s, %v; want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
	for _, stat := range []string{"", "4316 (nginx)", "4316 (nginx) S 1" + rest[:20], "4316 (nginx) S" + rest} {
		if start, err := parseStart([]byte(stat)); err == nil {
			t.Errorf("%q: start %s, want an error", stat, start)
		}
	}
}

// TestProcesses checks that a process of an older master counts as the oldest process until it has ended.
func TestProcesses(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	n.Configure(nginxtest.Render(t, `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}]}
`).Text, "disk1")
	config := "/run/cachenode/older.conf"
	text := "pid /run/cachenode/older.pid; daemon off; master_process off; error_log /dev/null; events {}\n"
	if err := os.WriteFile(filepath.Join(n.Root, config), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(n.Root, config), 101, 101); err != nil {
		t.Fatal(err)
	}
	program := append(n.Program(), "-c", config)
	older := exec.Command(program[0], program[1:]...)
	older.Stderr = t.Output()
	if err := older.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = older.Wait(); close(ended) }()
	t.Cleanup(func() { _ = older.Process.Kill(); <-ended })
	nginx := &Nginx{Root: n.Root}
	if p, ok := nginx.Processes(); ok {
		t.Errorf("nginx runs before its start: %+v", p)
	}
	start, err := startOf(older.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the older process is not nginx", func() bool { return slices.Contains(others(0), older.Process.Pid) })
	await.True(t, "a process that starts now is not younger", func() bool {
		now, err := sinceBoot()
		return err == nil && now > start+2*ticks
	})
	n.Start()
	p, ok := nginx.Processes()
	if !ok || p.Oldest >= p.Master {
		t.Errorf("ok is %t, the oldest process started %s after the boot, the master %s", ok, p.Oldest, p.Master)
	}
	if err := older.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	await.True(t, "a worker is not the oldest process", func() bool {
		p, ok = nginx.Processes()
		return ok && p.Oldest >= p.Master
	})
	now, err := sinceBoot()
	if err != nil || p.Oldest > now || p.Oldest < start {
		t.Errorf("the oldest process started %s after the boot, and it is %s after it (%v)", p.Oldest, now, err)
	}
	info, err := os.Stat(filepath.Join(n.Root, config)) // the file was written before any process started
	if err != nil {
		t.Fatal(err)
	}
	if p.Boot.After(info.ModTime()) || p.Boot.Add(now).Before(info.ModTime()) {
		t.Errorf("the boot was at %s, and a file of since then is of %s", p.Boot, info.ModTime())
	}
}
