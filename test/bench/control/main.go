// Command control measures the operator's load on the control plane. The operator reconciles 1,000 CacheNodes on a real
// API server. For comparison, tsuru/nginx-operator reconciles 1,000 objects of its own kind. The API server's audit log
// shows what each of them requested. control prints a table and writes control.json and control.svg.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// options are the command's flags.
type options struct {
	count, rounds int
	idle          time.Duration
	out           string
}

func main() {
	var o options
	flag.IntVar(&o.count, "count", 1000, "how many objects each operator gets")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured; they take turns")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long to look at an operator that has nothing to do")
	flag.StringVar(&o.out, "out", "", "a folder for the result as JSON and SVG")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	work, err := os.MkdirTemp("", "cachenode-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	subjects, err := build(work)
	if err != nil {
		return err
	}
	samples := map[string][]sample{}
	for round := range o.rounds {
		for _, s := range subjects {
			log.Printf("round %d of %d: %s", round+1, o.rounds, s.name)
			measured, err := measure(ctx, s, o, filepath.Join(work, fmt.Sprintf("%s-%d", s.name, round)))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			samples[s.name] = append(samples[s.name], measured)
		}
	}
	return report(os.Stdout, subjects, samples, o)
}

// build builds both operators and returns where they are.
func build(work string) ([]subject, error) {
	own := filepath.Join(work, "manager")
	if out, err := exec.Command("go", "build", "-o", own, "./cmd/manager").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cmd/manager: %w\n%s", err, out)
	}
	theirs, err := lab.Recipe("hack/build-tool", "tsuru-nginx-operator")
	if err != nil {
		return nil, err
	}
	source := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tsuru/nginx-operator")
	source.Dir = "hack/pins/tsuru-nginx-operator"
	out, err := source.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return []subject{
		{
			name: "cachenode", binary: own, crds: "config/crd/bases", object: cacheNode, children: "statefulsets",
			args: []string{"--agent-image=localhost/none", "--metrics-bind-address=0", "--health-probe-bind-address=0"},
		},
		{
			name: "tsuru", binary: filepath.Join(theirs, "nginx-operator"),
			crds:   filepath.Join(strings.TrimSpace(string(out)), "config/crd/bases"),
			object: nginx, children: "deployments",
			args: []string{"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"},
		},
	}, nil
}
