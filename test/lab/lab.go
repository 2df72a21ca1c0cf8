// Package lab creates the environment of the benchmarks: disks with a set speed, servers in cgroups with limits, and
// clients behind a virtual Ethernet with an MTU of 1500. A lab creates all of these for one run, and removes them when
// it closes. The package needs Linux and root. It is not safe for concurrent use, but a signal may close the lab at any
// time.
package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Port is the port of the measured server, and OriginPort is the port of its origin.
const (
	Port       = 8080
	OriginPort = 9000
)

// Lab is an environment for measurements.
type Lab struct {
	// Dir is a folder that is removed when the lab closes.
	Dir string
	// cleanups contains the functions that remove everything that the lab has created. They run in reverse order. Since a
	// signal can also start them, mutex protects the list. closing is locked while they run.
	mutex, closing sync.Mutex
	cleanups       []func() error
	tag            string
	sites          int
	// files is the folder for the files of disks; "" for Dir. shown is the folder in which test/bench/seek shows these
	// files with seek times; "" if disks have no seeks. speeds receives the commands that set the seek times and speeds.
	// inMemory is true after a call of InMemory.
	files, shown string
	speeds       io.Writer
	inMemory     bool
}

// New creates a lab in a new folder of dir; "" means the system's temporary folder.
func New(dir string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the benchmarks make disks, cgroups and network namespaces: run them as root")
	}
	work, err := os.MkdirTemp(dir, "cachenode-bench-")
	if err != nil {
		return nil, err
	}
	l := &Lab{Dir: work, tag: filepath.Base(work)}
	l.cleanup(func() error { return os.RemoveAll(work) })
	if err := os.Chmod(work, 0o755); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.closeOnSignal()
	if err := l.namespace(l.clients()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// closeOnSignal closes the lab when SIGINT or SIGTERM ends the program, so that nothing is left behind.
func (l *Lab) closeOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	l.cleanup(func() error { signal.Stop(signals); return nil })
	go func() {
		<-signals
		_ = l.Close()
		os.Exit(130)
	}()
}

// Close removes everything that the lab has created. If a signal has already started a call of Close, the second call
// waits until the first call ends. Otherwise, the program would exit too early and leave something behind.
func (l *Lab) Close() error {
	l.closing.Lock()
	defer l.closing.Unlock()
	l.mutex.Lock()
	cleanups := l.cleanups
	l.cleanups = nil
	l.mutex.Unlock()
	var errs []error
	for _, undo := range slices.Backward(cleanups) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

func (l *Lab) cleanup(f func() error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.cleanups = append(l.cleanups, f)
}

// congestionControl is the default of the kernel, but some machines use BBR instead. Between two namespaces, BBR
// measures a round-trip time of only a few microseconds. It then sends 1 MiB in about fifty steps, each of which
// waits for a processor.
const congestionControl = "cubic"

// Site is a network namespace for a server and its origin. A virtual Ethernet connects each site with the clients.
type Site struct {
	// Address is the server's address, as clients see it.
	Address   string
	namespace string
}

// URL returns the URL of the site's server.
func (s Site) URL() string { return fmt.Sprintf("http://%s:%d", s.Address, Port) }

// Site creates a site, and connects it with the clients.
func (l *Lab) Site(name string) (Site, error) {
	l.sites++
	s := Site{Address: fmt.Sprintf("10.77.%d.1", l.sites), namespace: l.tag + "-" + name}
	inside, outside := "eth0", fmt.Sprintf("eth%d", l.sites)
	if err := l.namespace(s.namespace); err != nil {
		return s, err
	}
	if err := run("ip", "-n", s.namespace, "link", "add", inside, "mtu", "1500",
		"type", "veth", "peer", "name", outside, "netns", l.clients()); err != nil {
		return s, err
	}
	for _, end := range [][3]string{
		{s.namespace, inside, s.Address},
		{l.clients(), outside, fmt.Sprintf("10.77.%d.2", l.sites)},
	} {
		if err := run("ip", "-n", end[0], "addr", "add", end[2]+"/24", "dev", end[1]); err != nil {
			return s, err
		}
		if err := run("ip", "-n", end[0], "link", "set", end[1], "up", "mtu", "1500"); err != nil {
			return s, err
		}
		if err := run("ip", "-n", end[0], "route", "change", fmt.Sprintf("10.77.%d.0/24", l.sites),
			"dev", end[1], "src", end[2], "congctl", congestionControl); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Connect connects two sites by a separate virtual Ethernet. It returns the address of each site on this Ethernet.
func (l *Lab) Connect(a, b Site) (addresses [2]string, err error) {
	const name = "peer0"
	if err := run("ip", "-n", a.namespace, "link", "add", name, "mtu", "1500",
		"type", "veth", "peer", "name", name, "netns", b.namespace); err != nil {
		return addresses, err
	}
	for i, namespace := range []string{a.namespace, b.namespace} {
		addresses[i] = fmt.Sprintf("10.78.%d.%d", l.sites, i+1)
		for _, command := range [][]string{
			{"addr", "add", addresses[i] + "/24", "dev", name},
			{"link", "set", name, "up"},
			{
				"route", "change", fmt.Sprintf("10.78.%d.0/24", l.sites),
				"dev", name, "src", addresses[i], "congctl", congestionControl,
			},
		} {
			if err := run(append([]string{"ip", "-n", namespace}, command...)...); err != nil {
				return addresses, err
			}
		}
	}
	return addresses, nil
}

func (l *Lab) clients() string { return l.tag + "-clients" }

func (l *Lab) namespace(name string) error {
	if err := run("ip", "netns", "add", name); err != nil {
		return err
	}
	l.cleanup(func() error { return run("ip", "netns", "delete", name) })
	return run("ip", "-n", name, "link", "set", "lo", "up")
}

// Client returns a command that runs in the network namespace of the clients, and only on the processors for clients.
func (l *Lab) Client(command ...string) *exec.Cmd {
	_, others := processors(runtime.NumCPU())
	return in(l.clients(), on(others, command...))
}

// Inside returns a command that runs in the network namespace of the site.
func (s Site) Inside(command ...string) *exec.Cmd { return in(s.namespace, command) }

// OriginCount returns the number of requests for objects that the origin of a site has received so far.
func (s Site) OriginCount() (int64, error) {
	output, err := s.Inside("curl", "-sf", fmt.Sprintf("http://127.0.0.1:%d/count", OriginPort)).Output()
	if err != nil {
		return 0, fmt.Errorf("the origin: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(output)), 10, 64)
}

func in(namespace string, command []string) *exec.Cmd {
	args := append([]string{"--net=/run/netns/" + namespace, "--"}, command...)
	return exec.Command("nsenter", args...)
}

func run(command ...string) error {
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output)
	}
	return nil
}
