package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

// manyDisks is the number of disks of each pod in the measurement of many pods.
const manyDisks = 3

// sizes measures the configurations for several numbers of pods. Only the first pod of each configuration really runs.
func sizes(counts string, rounds, seconds int, out string) (err error) {
	s := result.FleetSizes{Rounds: rounds, Disks: manyDisks}
	for word := range strings.SplitSeq(counts, ",") {
		pods, err := strconv.Atoi(word)
		if err != nil || pods < 2 || pods > fleet.MaxMembers {
			return fmt.Errorf("-pods %s: want numbers from 2 to %d, separated by commas", counts, fleet.MaxMembers)
		}
		for _, names := range []bool{false, true} {
			size, err := measureSize(pods, names, rounds, seconds)
			if err != nil {
				return fmt.Errorf("%d pods: %w", pods, err)
			}
			fmt.Fprintf(os.Stderr, "%+v\n", size)
			s.Sizes = append(s.Sizes, size)
		}
	}
	if out == "" {
		return nil
	}
	return record.Write(out, "fleet-sizes", s)
}

func measureSize(pods int, names bool, rounds, seconds int) (size result.FleetSize, err error) {
	b := bench{}
	if b.Lab, err = lab.New(""); err != nil {
		return size, err
	}
	defer func() {
		if closeErr := b.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := b.prepare(1); err != nil {
		return size, err
	}
	size = result.FleetSize{Pods: pods, Names: names, Fleet: len(fleet.Of(pods).String())}
	var text string
	for range rounds {
		begun := time.Now()
		if text, err = manyPods(pods, names); err != nil {
			return size, err
		}
		size.Render = append(size.Render, milliseconds(begun))
	}
	size.Config = len(text)
	site, err := b.Site("many")
	if err != nil {
		return size, err
	}
	if _, err := b.startOrigin("many", site); err != nil {
		return size, err
	}
	if names {
		if err := b.startNames(site); err != nil {
			return size, err
		}
	}
	root := lab.Root{
		Dir: b.nginxRoot, Tmpfs: []string{"/run", "/tmp", "/var/cache"},
		Files: map[string]string{"/tmp/nginx.conf": "user root;\n" + text, "/run/cachenode/README": ""},
	}
	for disk := range manyDisks {
		root.Files[fmt.Sprintf("/var/cache/cachenode/disk%d/cachenode/README", disk+1)] = ""
	}
	server, err := b.Start("many", site, nil, root, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
	if err != nil {
		return size, err
	}
	if err := b.Await(site, server, lab.Port); err != nil {
		return size, err
	}
	if size.Queries, size.Rest, err = b.rest(server, site, names); err != nil {
		return size, err
	}
	return size, b.measureMany(&size, site, server, rounds, seconds)
}

// startNames starts the DNS server of a site.
func (b *bench) startNames(site lab.Site) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := b.Start("names", site, nil, lab.Root{}, self, "-names")
	if err != nil {
		return err
	}
	return b.Await(site, server, countPort)
}

func (b *bench) measureMany(size *result.FleetSize, site lab.Site, server *lab.Server, rounds, seconds int) error {
	masters, err := server.Descendants("nginx: master")
	if err != nil || len(masters) != 1 {
		return fmt.Errorf("%d masters: %w", len(masters), err)
	}
	var master string
	for pid := range masters {
		master = strconv.Itoa(pid)
	}
	load := lab.One("local", connections, localPath(size.Pods))
	if _, err := b.Ask(site.URL(), time.Second, load); err != nil {
		return err
	}
	if size.Worker, size.Processes, err = memory(server); err != nil {
		return err
	}
	for range rounds {
		begun := time.Now()
		test := exec.Command("nsenter", "--target", master, "--mount", "--net", "--root", "--",
			"nginx", "-t", "-q", "-c", "/tmp/nginx.conf", "-e", "stderr")
		if output, err := test.CombinedOutput(); err != nil {
			return fmt.Errorf("nginx -t: %w\n%s", err, output)
		}
		size.Test = append(size.Test, milliseconds(begun))
		if err := reload(size, server, master); err != nil {
			return err
		}
		answers, err := b.Ask(site.URL(), time.Duration(seconds)*time.Second, load)
		if err != nil {
			return err
		}
		if answers[0].Errors > 0 {
			return fmt.Errorf("%d requests failed", answers[0].Errors)
		}
		size.PerSecond = append(size.PerSecond, answers[0].PerSecond)
	}
	return nil
}

// reload measures the time from the signal to reload until there are as many new workers as there were old workers.
func reload(size *result.FleetSize, server *lab.Server, master string) error {
	before, err := server.Descendants("nginx: worker process")
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := exec.Command("kill", "-HUP", master).Run(); err != nil {
		return err
	}
	for time.Since(begun) < 30*time.Second {
		now, err := server.Descendants("nginx: worker process")
		if err != nil {
			return err
		}
		fresh := 0
		for pid := range now {
			if _, old := before[pid]; !old {
				fresh++
			}
		}
		if fresh >= len(before) {
			size.Reload = append(size.Reload, milliseconds(begun))
			return nil
		}
	}
	return fmt.Errorf("no new workers after %s", time.Since(begun))
}

// memory returns the memory of one worker, and the memory of the master and all workers together, in MiB. If several
// processes share a page, each of them counts an equal part of the page.
func memory(server *lab.Server) (worker, all float64, err error) {
	processes, err := server.Descendants("nginx: ")
	if err != nil {
		return 0, 0, err
	}
	workers, err := server.Descendants("nginx: worker process")
	if err != nil {
		return 0, 0, err
	}
	if len(workers) == 0 {
		return 0, 0, errors.New("there are no workers")
	}
	for pid := range processes {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return 0, 0, err
		}
		rollup, err := process.ProcSMapsRollup()
		if err != nil {
			return 0, 0, err
		}
		mebibytes := float64(rollup.Pss) / mebi
		all += mebibytes
		if _, isWorker := workers[pid]; isWorker {
			worker = mebibytes
		}
	}
	return worker, all, nil
}

// manyPods returns the nginx configuration of the first of many pods. If names is true, the configuration contains the
// names of the pods; otherwise, it contains their addresses.
func manyPods(pods int, names bool) (string, error) {
	cacheNode, err := file.One("-", strings.NewReader(fmt.Sprintf(`apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  replicas: %d
  routing: {mode: Sharded, tls: "Off"}
  disks:
  - {name: disk1, size: 1Ti, media: NVMe}
  - {name: disk2, size: 1Ti, media: NVMe}
  - {name: disk3, size: 1Ti, media: NVMe}
  origin: {servers: [{host: 127.0.0.1, port: %d}], hostHeader: bench}
  cache: {key: [RequestURI], valid: [{status: [200], for: 24h}]}
  pod: {resources: {limits: {cpu: %d, memory: 2Gi}}}
`, pods, lab.OriginPort, cpus)))
	if err != nil {
		return "", err
	}
	outside := revision.Outside{ClusterDomain: "cluster.local"}
	wanted, err := revision.Of(effective.Of(cacheNode, effective.Before{}), outside)
	if err != nil {
		return "", err
	}
	facts := cache.Facts{
		Cores: cpus, Memory: 2 << 30, Fleet: cache.Fleet{Fleet: fleet.Of(pods)},
		Sizes: map[string]int64{"disk1": 1 << 30, "disk2": 1 << 30, "disk3": 1 << 30},
	}
	config, err := cache.Render(cache.Input{Revision: wanted, Facts: facts})
	if names || err != nil {
		return config.Text, err
	}
	addresses := map[int]string{}
	for pod := range pods {
		addresses[pod] = podAddress(pod).String()
	}
	return nginxtest.WithAddresses(config.Text, addresses), nil
}

// localPath returns the path of an object of 4 KiB that the first pod owns.
func localPath(pods int) string {
	locator := fleet.Of(pods).Locator()
	for i := 0; ; i++ {
		path := fmt.Sprintf("/objects/4096/%d", i)
		if owner, _, _, _ := locator.Holders(path); owner == 0 {
			return path
		}
	}
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
