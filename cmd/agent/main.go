// Command agent runs beside nginx in each cache pod.
//
//	agent install DIR   copies this program into DIR, so that a container with another image can run it
//	agent run           configures and reloads nginx, probes the disks, and reports
//	agent await DIR     ends when a disk is mounted at DIR
//	agent objects       lists what is cached
//	agent copy          shows which parts of one object are cached
//
// It contains only flags and wiring, and may import any package except those of the operator and the plugin. Code
// that does more goes into package agent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agent/server"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

// version is set at link time.
var version = "unknown"

const usage = `usage:
  agent install DIR   copy this program into DIR
  agent [-config DIR] [-pod DIR] run
                      configure and reload nginx, probe the disks, and report
  agent [-folder] await DIR
                      wait until a file system is mounted at DIR and can be read
  agent objects       ask the agent that runs in this pod what is cached:
                      a query as JSON on standard input, the answer on standard output
  agent copy          ask it in the same way what it has of one object
  agent version       print the version
flags:
  -config DIR   the folder of the ConfigMap, default ` + layout.ConfigDir + `
  -folder       accept a folder on which nothing is mounted
  -pod DIR      the folder of the downward API volume, default ` + layout.PodInfoDir + `
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	paths := agent.Paths{
		Listener: layout.ListenerDir, Owner: layout.OwnerDir, Peer: layout.PeerDir,
		Purges: layout.PurgesDir, Certificates: layout.CertificatesDir, ResolvConf: "/etc/resolv.conf",
	}
	paths.Hostname, _ = os.Hostname() // after an error, the name is "", which no pod has
	flags.StringVar(&paths.Config, "config", layout.ConfigDir, "")
	flags.StringVar(&paths.PodInfo, "pod", layout.PodInfoDir, "")
	folder := flags.Bool("folder", false, "")
	flags.Usage = func() { _, _ = io.WriteString(flags.Output(), usage) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.Arg(0) == "install" && flags.NArg() == 2:
		return install(flags.Arg(1))
	case flags.Arg(0) == "run" && flags.NArg() == 1:
		return conduct(paths)
	case flags.Arg(0) == "await" && flags.NArg() == 2:
		return await(flags.Arg(1), *folder)
	case flags.Arg(0) == "objects" && flags.NArg() == 1:
		return ask(objects.Path, os.Stdin, os.Stdout)
	case flags.Arg(0) == "copy" && flags.NArg() == 1:
		return ask(objects.CopyPath, os.Stdin, os.Stdout)
	case flags.Arg(0) == "version":
		fmt.Println(version)
		return nil
	}
	flags.Usage()
	return fmt.Errorf("want install DIR, run, await DIR, objects, copy or version")
}

// await returns when a file system is mounted at dir and can be read. If folder is true, a mount of a folder
// inside a file system counts too, not only a mount of its root.
func await(dir string, folder bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for {
		whole, err := disk.IsWholeMount(dir)
		if err == nil && (whole || folder) {
			if _, err = os.ReadDir(dir); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is no mount yet: %w", dir, errors.Join(err, ctx.Err()))
		case <-time.After(time.Second):
		}
	}
}

// install copies the running program into dir.
func install(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self) //nolint:gosec // the path of this program
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "agent")
	to, err := os.OpenFile(path+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // executable
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}

func conduct(paths agent.Paths) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	nginx := &reload.Nginx{
		Program: []string{"nginx"}, URL: fmt.Sprintf("http://127.0.0.1:%d", layout.PrivatePort),
		Client: agent.LocalClient(), TestTimeout: 15 * time.Second, TakeTimeout: 30 * time.Second,
	}
	a := agent.New(paths, nginx, log, version, clock.RealClock{})
	log.Info("the agent starts", "version", version)
	return a.Serve(ctx, agent.Addresses{
		Plain: fmt.Sprintf(":%d", layout.MetricsPort), Reports: fmt.Sprintf(":%d", layout.AgentPort),
	}, server.TLS(layout.CertificateDir))
}
