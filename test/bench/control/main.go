// Command control measures how much load the operator causes on the control plane. The operator reconciles 1,000
// CacheNodes on a real API server, whose audit log records the operator's requests. The command prints a table, and
// writes control.json to the folder of the flag -out.
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
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	count, rounds int
	idle          time.Duration
	out           string
}

func main() {
	var o options
	flag.IntVar(&o.count, "count", 1000, "how many CacheNodes the operator gets")
	flag.IntVar(&o.rounds, "rounds", 3, "how often it is measured")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long to look at the operator while it has nothing to do")
	flag.StringVar(&o.out, "out", "", "a folder for the result as JSON")
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
	binary := filepath.Join(work, "manager")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/manager").CombinedOutput(); err != nil {
		return fmt.Errorf("cmd/manager: %w\n%s", err, out)
	}
	var samples []sample
	for round := range o.rounds {
		log.Printf("round %d of %d", round+1, o.rounds)
		s, err := measure(ctx, binary, o, filepath.Join(work, fmt.Sprint(round)))
		if err != nil {
			return err
		}
		samples = append(samples, s)
	}
	return report(os.Stdout, samples, o)
}
