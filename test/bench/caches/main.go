// Command caches compares caches: nginx without thread pools, the article's configuration, the operator's
// configuration, Varnish and Traffic Server. Each server has three disks of its own. All servers have the same
// memory, and disks of the same speed. The command measures the servers in turn, and prints the medians of several
// rounds. It needs Linux and root.
//
//	caches article          the article's experiment: objects of 4 MiB, random load and a hot object
//	caches peers            random load and a hot object on hard disks, 4 KiB to 16 MiB, 300 and 700 MiB of memory
//	caches fast             random load, a hot object, or both, on disks at full speed or from memory, 4 KiB to 16 MiB
//	caches zipf             a mix in which one request in ten is a miss
//	caches admission        the same mix, and objects that are requested once; also measures servers that store an
//	                        object at its second request
//	caches small            400,000 objects of 1 KiB
//	caches millions         5,000,000 objects of 1 KiB, which takes an hour and 40 GiB of disk for two servers
//	caches tuning           the operator's configuration, each time with one change
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	disks = 3
	// cpus is the number of processors for which each server is configured.
	cpus = 2
)

// conditions contains the settings that all servers of a case have in common.
type conditions struct {
	nginxRoot, peersRoot, plugin   string
	diskMebibytes, memoryMebibytes int64
	// object is the size of each object in bytes. connections is the number of connections of all loads together.
	object, connections int64
	// media and declaredMebibytes are the media and the size that the CacheNode declares for each disk.
	media             string
	declaredMebibytes int64
	// keysZoneMebibytes is the size of the keys zone of each disk; 0 for the default.
	keysZoneMebibytes int64
}

// server is one of the compared servers.
type server interface {
	fmt.Stringer
	// About returns a description of the server's configuration.
	About() string
	Preparation(object int64) lab.Preparation
	Start(*lab.Lab, lab.Site, *lab.Cgroup, [disks]lab.Disk, conditions) (*lab.Server, error)
}

var servers = []server{noPools, article, ours, varnish{}, trafficServer{}}

func main() {
	rounds := flag.Int("rounds", 5, "how often each is measured")
	seconds := flag.Int("seconds", 0, "how long a measurement takes; 0 for what suits the case")
	only := flag.String("servers", "", "the servers to measure, separated by commas; all if empty")
	match := flag.String("cases", "", "measure only cases whose name contains this")
	used := flag.Bool("used", false, "begin with memory as after long use instead of an empty page cache")
	noInodes := flag.Bool("cold", false, "begin without inodes in memory too")
	out := flag.String("out", "", "a folder for the result as JSON")
	var shares shareList
	flag.Var(&shares, "shares", "also measure at a fixed rate: shares of what each server served, such as 0.5,0.8")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(),
			"usage: caches [FLAGS] article|peers|fast|small|millions|zipf|admission|tuning")
		flag.PrintDefaults()
	}
	flag.Parse()
	cases, ok := scenarios[flag.Arg(0)]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	chosen, err := choose(flag.Arg(0), *only)
	if err == nil {
		err = run(cases, *match, func(c scenario) error {
			c.seconds = cmp.Or(*seconds, c.seconds)
			switch {
			case *used:
				c.begins, c.name = longUse, c.name+"-used"
			case *noInodes:
				c.begins, c.name = cold, c.name+"-cold"
			}
			if slices.Contains(chosen, server(withAgent{})) {
				c.name += "-agent"
			}
			return measure(os.Stdout, bench{scenario: c, shares: shares}, chosen, *rounds, *out)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "caches:", err)
		os.Exit(1)
	}
}

// run measures the cases whose name contains match.
func run(cases []scenario, match string, measure func(scenario) error) error {
	cases = slices.DeleteFunc(slices.Clone(cases), func(c scenario) bool { return !strings.Contains(c.name, match) })
	if len(cases) == 0 {
		return fmt.Errorf("no case has %q in its name", match)
	}
	for _, c := range cases {
		if err := measure(c); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the servers with the given names, which are separated by commas. Without names, it returns the
// default servers for a group of cases.
func choose(group, names string) ([]server, error) {
	against := []server{ours}
	for _, v := range variants {
		against = append(against, v)
	}
	if names == "" && group == "admission" {
		names = "cachenode,min-uses,trafficserver,trafficserver-promote"
	}
	switch {
	case names != "":
		wanted := strings.Split(names, ",")
		others := []server{withAgent{}, varnish{malloc: true}, trafficServer{promotes: true}}
		all := slices.Concat(servers, others, against[1:])
		chosen := slices.DeleteFunc(all, func(s server) bool {
			return !slices.Contains(wanted, s.String())
		})
		if len(chosen) != len(wanted) {
			return nil, fmt.Errorf("of %s there are only %v", names, chosen)
		}
		return chosen, nil
	case group == "tuning":
		return against, nil
	}
	return servers, nil
}

// measure runs one case and prints its table.
func measure(w io.Writer, b bench, chosen []server, rounds int, out string) (err error) {
	if b.Lab, err = lab.New(""); err != nil {
		return err
	}
	defer func() {
		if closeErr := b.Close(); err == nil {
			err = closeErr
		}
	}()
	b.duration = time.Duration(b.seconds) * time.Second
	if err := b.prepare(chosen); err != nil {
		return err
	}
	for _, s := range chosen {
		fmt.Fprintf(os.Stderr, "%s: %s is filled ...\n", b.name, s)
		if err := b.start(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	for round := range rounds {
		// In random order, so that a server does not always run after the same other server.
		for _, i := range rand.Perm(len(b.running)) {
			r := &b.running[i]
			sample, err := b.sample(r)
			if err != nil {
				return fmt.Errorf("%s: %w", r.server, err)
			}
			r.samples = append(r.samples, sample)
			fmt.Fprintf(os.Stderr, "%s: round %d: %-14s %s\n", b.name, round+1, r.server, progress(sample))
		}
	}
	return report(w, b, rounds, out)
}

// bench is a case that is being measured.
type bench struct {
	*lab.Lab
	scenario
	conditions
	duration time.Duration
	// shares defines the fixed rates of the additional measurements of each server. Each rate is a share of the rate that
	// the server has just served without a fixed rate.
	shares []float64
	// origin, client and rate are the paths of the programs test/origin, test/client and test/bench/rate.
	origin, client, rate string
	running              []running
}

// running is a server and its samples.
type running struct {
	server  server
	site    lab.Site
	process *lab.Server
	samples []result.Sample
}

// setConditions derives the conditions from the case.
func (b *bench) setConditions() {
	b.memoryMebibytes = b.memory
	for _, load := range b.loads {
		b.connections += int64(load.Connections)
	}
	// By default, the disks have eight times the size of the objects, and at least 1 GiB each. An object with its header
	// is a little larger than a block, so it can take two blocks. The objects and the same number of misses therefore take
	// up to four times the size. The disks have twice this space. An object smaller than 4 KiB counts as 4 KiB, because it
	// takes a block and an inode.
	b.diskMebibytes = max(max(b.size, 4*kibi)*int64(b.count)/disks>>20*8, 1024)
	if b.full { // room for 2.5 times the objects, each of which takes a block and a half
		b.diskMebibytes = b.size * int64(b.count) / disks >> 20 * 5
	}
	if b.inMemory { // without misses, smaller disks are enough, and they take less memory
		b.diskMebibytes = max(max(b.size, 4*kibi)*int64(b.count)/disks>>20*4/3, 1100)
	}
	declared := cmp.Or(b.declared, b.diskMebibytes)
	if b.full { // folders and journal take 15% of such a small disk, and the data of ten seconds takes 3%
		declared = b.diskMebibytes * 9 / 10
	}
	b.diskMebibytes = cmp.Or(b.disk, b.diskMebibytes)
	declared = cmp.Or(b.disk, declared)
	b.keysZoneMebibytes = b.keysZone
	b.object, b.conditions.media, b.declaredMebibytes = b.size, b.scenario.media, declared
}

// prepare sets the conditions and builds the programs and root file systems.
func (b *bench) prepare(chosen []server) error {
	b.setConditions()
	recipes := map[*string]string{&b.nginxRoot: "hack/nginx-root"}
	if slices.ContainsFunc(chosen, func(s server) bool { _, stock := s.(nginx); return !stock }) {
		recipes[&b.peersRoot] = "hack/peers-root"
	}
	for target, recipe := range recipes {
		var err error
		if *target, err = lab.Recipe(recipe); err != nil {
			return err
		}
	}
	build := exec.Command("go", "build", "-o", b.Dir+"/bin/", "./test/origin", "./test/client", "./cmd/kubectl-cachenode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	build = exec.Command("go", "-C", "test/bench", "build", "-o", b.Dir+"/bin/", "./rate", "./seek")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	b.rate = filepath.Join(b.Dir, "bin/rate")
	if b.inMemory {
		if err := b.InMemory(b.diskMebibytes * disks * int64(len(chosen))); err != nil {
			return err
		}
	}
	if b.speed.Seek > 0 {
		if err := b.Seek(filepath.Join(b.Dir, "bin/seek")); err != nil {
			return err
		}
	}
	b.origin = filepath.Join(b.Dir, "bin/origin")
	b.client, b.plugin = filepath.Join(b.Dir, "bin/client"), filepath.Join(b.Dir, "bin/kubectl-cachenode")
	return nil
}

// start starts a server on its own disks and fills it. The client checks every byte.
func (b *bench) start(s server) error {
	var d [disks]lab.Disk
	for i := range d {
		var err error
		if d[i], err = b.Disk(fmt.Sprintf("%s-%d", s, i+1), b.diskMebibytes, s.Preparation(b.size)); err != nil {
			return err
		}
	}
	cgroup, err := b.Cgroup(s.String(), b.memoryMebibytes<<20, d[:])
	if err != nil {
		return err
	}
	if err := cgroup.Throttle(lab.Speed{}); err != nil {
		return err
	}
	site, err := b.Site(s.String())
	if err != nil {
		return err
	}
	origin, err := b.Start("origin-"+s.String(), site, nil, lab.Root{},
		"env", fmt.Sprintf("ORIGIN_ADDRESS=:%d", lab.OriginPort), b.origin)
	if err != nil {
		return err
	}
	if err := b.Await(site, origin, lab.OriginPort); err != nil {
		return err
	}
	process, err := s.Start(b.Lab, site, cgroup, d, b.conditions)
	if err != nil {
		return err
	}
	if err := b.Await(site, process, lab.Port); err != nil {
		return err
	}
	b.running = append(b.running, running{server: s, site: site, process: process})
	if b.full {
		return b.age(site)
	}
	return b.fill(site)
}

// fill fetches all objects, in portions by several clients.
func (b *bench) fill(site lab.Site) error {
	const portion, clients = 100_000, 4
	var group errgroup.Group
	group.SetLimit(clients)
	for from := 0; from < b.count; from += portion {
		group.Go(func() error { return b.fetch(site, from, min(from+portion, b.count)) })
	}
	return group.Wait()
}

// age fills the disks with other objects before it fetches the objects of the case. All these objects together do not
// fit: the disks have room for less than four times the objects of the case. nginx checks every ten seconds whether a
// cache is too large. Real disks have room for the data that arrives between two checks, but these disks are too
// small for so much data. So age fetches all but the first b.count objects in portions, with a pause before each
// portion.
func (b *bench) age(site lab.Site) error {
	const pause = 10 * time.Second
	portion := b.count / 10
	first := 2 * b.count
	if err := b.fetch(site, b.count, first); err != nil {
		return err
	}
	for _, objects := range [][2]int{{first, 4 * b.count}, {0, b.count}} {
		for from := objects[0]; from < objects[1]; from += portion {
			time.Sleep(pause)
			if err := b.fetch(site, from, min(from+portion, objects[1])); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch requests the objects with the numbers from to to-1, one after another. The client checks every byte.
func (b *bench) fetch(site lab.Site, from, to int) error {
	var paths strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&paths, "/objects/%d/%d\n", b.size, i)
	}
	command := b.Client(b.client, "fetch", "-base", site.URL(), "-keepalive")
	command.Stdin = strings.NewReader(strings.Repeat(paths.String(), b.times()))
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("the client: %w\n%s", err, lastOf(output))
	}
	var wrong []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, `"error":`) {
			wrong = append(wrong, line)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d objects were not right, such as\n%s", len(wrong), to-from, wrong[0])
	}
	return nil
}

// times returns the number of requests for each object when a cache is filled.
func (b *bench) times() int {
	if b.twice {
		return 2
	}
	return 1
}

// shareList is the value of the flag -shares: numbers separated by commas.
type shareList []float64

func (l *shareList) String() string { return fmt.Sprint([]float64(*l)) }

// Set parses the flag.
func (l *shareList) Set(text string) error {
	for field := range strings.SplitSeq(text, ",") {
		share, err := strconv.ParseFloat(field, 64)
		if err != nil || share <= 0 || share > 1 {
			return fmt.Errorf("%s: want numbers above 0 and up to 1, separated by commas", text)
		}
		*l = append(*l, share)
	}
	return nil
}

func lastOf(output []byte) string { return string(output[max(0, len(output)-500):]) }
