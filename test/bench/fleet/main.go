// Command fleet measures how much more a request costs if another pod has the object. There are two pods, and clients
// send all requests to the first pod. The command compares two cases: the object is on the disk of the first pod, or it
// is on the other pod, so that a hop is needed. For CacheNode, it also measures a hot object that belongs to the other
// pod but of which the first pod has a copy in memory. It measures CacheNode, Varnish with a shard director, and
// Traffic Server. It needs Linux and root.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

const (
	kibi, mebi = 1 << 10, 1 << 20
	// memoryMebibytes is the memory of a pod, diskMebibytes is the size of its disk, and connections is the number of
	// the clients' connections.
	memoryMebibytes, diskMebibytes, connections = 700, 600, 16
	// cpus is the number of processors for which a pod is configured.
	cpus = 2
	// processors is the limit of a pod's processor time, in processors. Two pods with this limit and their clients fit on
	// two processors and do not slow each other down. So a hop costs the first pod as much as if each pod had a node of
	// its own.
	processors = 0.5
)

// objects maps a size in bytes to the number of objects of this size that are fetched before a measurement. Each pod
// owns about half of the objects.
var objects = map[int64]int{4 * kibi: 128, 64 * kibi: 128, mebi: 64, 16 * mebi: 12}

func main() {
	rounds := flag.Int("rounds", 3, "how often each is measured")
	seconds := flag.Int("seconds", 4, "how long a measurement takes")
	only := flag.String("systems", "", "the systems to measure, separated by commas; all if empty")
	out := flag.String("out", "", "a folder for the result as JSON")
	pods := flag.String("pods", "", "measure configurations for so many pods instead, such as 3,10,30,100")
	names := flag.Bool("names", false, "be the DNS server that -pods starts")
	flag.Parse()
	measure := func() error { return run(*rounds, *seconds, *only, *out) }
	if *pods != "" {
		measure = func() error { return sizes(*pods, *rounds, *seconds, *out) }
	}
	if *names {
		measure = serveNames
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(rounds, seconds int, only, out string) (err error) {
	chosen := slices.DeleteFunc(slices.Clone(systems), func(s system) bool {
		return only != "" && !slices.Contains(strings.Split(only, ","), s.name)
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no system is called %s", only)
	}
	b := bench{Fleet: result.Fleet{
		Rounds: rounds, Seconds: float64(seconds), Connections: connections, Memory: memoryMebibytes,
		Processors: processors, Systems: map[string]string{},
	}}
	if b.Lab, err = lab.New(""); err != nil {
		return err
	}
	defer func() {
		if closeErr := b.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := b.prepare(len(chosen)); err != nil {
		return err
	}
	for _, s := range chosen {
		if err := b.start(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for round := range rounds {
		for _, i := range rand.Perm(len(b.cases)) {
			if err := b.measure(b.cases[i], round); err != nil {
				return err
			}
		}
	}
	if out == "" {
		return nil
	}
	return record.Write(out, "fleet", b.Fleet)
}

// bench contains the state of a running benchmark.
type bench struct {
	*lab.Lab
	result.Fleet
	nginxRoot, peersRoot string
	// origin and client are the paths of programs.
	origin, client string
	cases          []hop
	// certificates contains the certificates of the pods; nil until the first pod needs them.
	certificates map[string][]byte
}

// pod is one of the two servers of a system.
type pod struct {
	site   lab.Site
	server *lab.Server
}

// hop is one case of the measurement: objects of one size, which are served in one way (local, hop or memory). asked is
// the pod to which clients send requests, and other is the other pod.
type hop struct {
	system, way  string
	size         int64
	asked, other pod
	paths        []string
}

func (b *bench) prepare(systems int) (err error) {
	if b.nginxRoot, err = lab.Recipe("hack/nginx-root"); err != nil {
		return err
	}
	if b.peersRoot, err = lab.Recipe("hack/peers-root"); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", b.Dir+"/bin/", "./test/origin", "./test/client")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	b.origin, b.client = filepath.Join(b.Dir, "bin/origin"), filepath.Join(b.Dir, "bin/client")
	return b.InMemory(int64(2 * systems * diskMebibytes))
}

// start starts both pods of a system, fills them, and finds out which pod has which objects.
func (b *bench) start(s system) error {
	b.Systems[s.name] = s.about
	fmt.Fprintf(os.Stderr, "%s is filled ...\n", s.name)
	var pods [2]pod
	for i := range pods {
		var err error
		if pods[i].site, err = b.Site(fmt.Sprintf("%s-%d", s.name, i)); err != nil {
			return err
		}
	}
	addresses, err := b.Connect(pods[0].site, pods[1].site)
	if err != nil {
		return err
	}
	for i := range pods {
		if pods[i].server, err = b.startPod(s, i, pods[i].site, addresses); err != nil {
			return err
		}
	}
	for size, count := range objects {
		if err := b.fill(s, size, count, pods); err != nil {
			return fmt.Errorf("objects of %d bytes: %w", size, err)
		}
	}
	return nil
}

func (b *bench) startPod(s system, i int, site lab.Site, addresses [2]string) (*lab.Server, error) {
	name := fmt.Sprintf("%s-%d", s.name, i)
	disk, err := b.Disk(name, diskMebibytes, lab.Prepared(64*kibi))
	if err != nil {
		return nil, err
	}
	cgroup, err := b.Cgroup(name, memoryMebibytes<<20, []lab.Disk{disk})
	if err != nil {
		return nil, err
	}
	if err := cgroup.LimitCPU(processors); err != nil {
		return nil, err
	}
	if _, err := b.startOrigin(name, site); err != nil {
		return nil, err
	}
	root, command, err := s.configure(b, i, addresses, disk)
	if err != nil {
		return nil, err
	}
	server, err := b.Start(name, site, cgroup, root, command...)
	if err != nil {
		return nil, err
	}
	return server, b.Await(site, server, lab.Port)
}

// startOrigin starts the origin of a pod.
func (b *bench) startOrigin(name string, site lab.Site) (*lab.Server, error) {
	origin, err := b.Start("origin-"+name, site, nil, lab.Root{},
		"env", fmt.Sprintf("ORIGIN_ADDRESS=:%d", lab.OriginPort), b.origin)
	if err != nil {
		return nil, err
	}
	return origin, b.Await(site, origin, lab.OriginPort)
}

// fill requests objects of one size from the first pod until each pod has the objects that it owns. Then it adds the
// cases to measure.
func (b *bench) fill(s system, size int64, count int, pods [2]pod) error {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("/objects/%d/%d", size, i))
	}
	by := map[string][]string{}
	for range 3 { // with a memory tier, the first requests copy objects into memory
		answers, err := b.fetch(pods[0].site, all)
		if err != nil {
			return err
		}
		clear(by)
		for _, a := range answers {
			by[a.Hop] = append(by[a.Hop], a.Path)
		}
	}
	add := func(way string, asked, other pod, paths []string) error {
		if len(paths) == 0 {
			return fmt.Errorf("no object is %s: %v", way, by)
		}
		b.cases = append(b.cases, hop{s.name, way, size, asked, other, paths})
		return nil
	}
	switch {
	case s.tier: // the load requests one object, which becomes hot
		return add("memory", pods[0], pods[1], by["peer"][:1])
	case s.front: // the first pod caches nothing
		if err := add("local", pods[1], pods[0], all); err != nil {
			return err
		}
		return add("hop", pods[0], pods[1], all)
	}
	if err := add("local", pods[0], pods[1], by["none"]); err != nil {
		return err
	}
	return add("hop", pods[0], pods[1], by["peer"])
}

// fetch requests paths one after another, checks every byte, and returns the answers.
func (b *bench) fetch(site lab.Site, paths []string) (answers []report.Result, err error) {
	command := b.Client(b.client, "fetch", "-base", site.URL(), "-keepalive")
	command.Stdin, command.Stderr = strings.NewReader(strings.Join(paths, "\n")+"\n"), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("the client: %w", err)
	}
	for line := range strings.Lines(string(output)) {
		var r report.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, err
		}
		if r.Error != "" {
			return nil, fmt.Errorf("%s: %s", r.Path, r.Error)
		}
		answers = append(answers, r)
	}
	return answers, nil
}

// measure measures one case once.
func (b *bench) measure(h hop, round int) error {
	load := lab.Load{
		Name: h.way, Connections: connections,
		Lua: `paths = paths or {"` + strings.Join(h.paths, `","`) + `"}; return paths[math.random(#paths)]`,
	}
	if _, err := b.ask(h, load, 2*time.Second); err != nil { // copies a hot object into memory
		return err
	}
	before, err := h.used()
	if err != nil {
		return err
	}
	origins, err := h.origins()
	if err != nil {
		return err
	}
	answers, err := b.ask(h, load, time.Duration(b.Seconds)*time.Second)
	if err != nil {
		return err
	}
	after, err := h.used()
	if err != nil {
		return err
	}
	if asked, err := h.origins(); err != nil || asked > origins {
		return fmt.Errorf("%s, %s: the origins were asked %d times: %w", h.system, h.way, asked-origins, err)
	}
	perRequest := func(i int) float64 {
		return float64((after[i] - before[i]).Microseconds()) / 1000 / float64(max(answers.Requests, 1))
	}
	sample := result.Hop{
		System: h.system, Bytes: h.size, Way: h.way, Round: round + 1,
		Answers: answers, CPU: perRequest(0), OwnersCPU: perRequest(1),
	}
	b.Samples = append(b.Samples, sample)
	fmt.Fprintf(os.Stderr, "round %d: %-18s %9d bytes, %-6s %9.1f/s p99 %7.1f ms, CPU %.3f + %.3f ms\n",
		round+1, h.system, h.size, h.way, answers.PerSecond, answers.P99, sample.CPU, sample.OwnersCPU)
	return nil
}

// ask sends the load to the pod h.asked. It returns an error if a request failed, or if bytes are missing.
func (b *bench) ask(h hop, load lab.Load, duration time.Duration) (a lab.Answers, err error) {
	all, err := b.Ask(h.asked.site.URL(), duration, load)
	if err != nil {
		return a, err
	}
	if a = all[0]; a.Errors > 0 || a.Requests == 0 || a.Bytes < a.Requests*h.size {
		return a, fmt.Errorf("%s, %s, %d bytes: %+v", h.system, h.way, h.size, a)
	}
	return a, nil
}

// used returns the processor time that both pods have used so far.
func (h hop) used() (cpu [2]time.Duration, err error) {
	for i, p := range []pod{h.asked, h.other} {
		use, err := p.server.Use()
		if err != nil {
			return cpu, err
		}
		cpu[i] = use.CPU
	}
	return cpu, nil
}

// origins returns the number of requests that the origins of both pods have received so far.
func (h hop) origins() (asked int64, err error) {
	for _, p := range []pod{h.asked, h.other} {
		n, err := p.site.OriginCount()
		if err != nil {
			return 0, err
		}
		asked += n
	}
	return asked, nil
}
