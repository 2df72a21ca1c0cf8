// Command disks measures the cost of a hit on disks that are prepared in different ways. It measures the number of
// reads, and the space that an object takes on the disk and in the page cache. nginx runs with the operator's
// configuration, without a memory tier. The page cache is empty before the hits, and each object is requested once. It
// needs Linux and root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

const kibi = 1 << 10

const (
	usual    = "xfs, blocks of 4 KiB, read-ahead 128 KiB"
	prepared = "xfs 64 KiB, read-ahead 4 MiB"
)

// ways are the measured ways to prepare a disk.
var ways = []struct {
	name string
	lab.Preparation
	readAhead string // the value of nginx's directive read_ahead; "" for the value that the operator renders
}{
	{usual, lab.Preparation{FileSystem: "xfs", ReadAhead: 128}, ""},
	{"  without nginx's read_ahead", lab.Preparation{FileSystem: "xfs", ReadAhead: 128}, "0"},
	{"xfs 4 KiB, read-ahead 512 KiB", lab.Preparation{FileSystem: "xfs", ReadAhead: 512}, ""},
	{"xfs 4 KiB, read-ahead 4 MiB", lab.Preparation{FileSystem: "xfs", ReadAhead: 4096}, ""},
	{"xfs 16 KiB, read-ahead 4 MiB", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=16384"}, ReadAhead: 4096,
	}, ""},
	{"xfs 32 KiB, read-ahead 4 MiB", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=32768"}, ReadAhead: 4096,
	}, ""},
	{"xfs 64 KiB, read-ahead 128 KiB", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536"}, ReadAhead: 128,
	}, ""},
	{"xfs 64 KiB, read-ahead 1 MiB", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536"}, ReadAhead: 1024,
	}, ""},
	{prepared, lab.Preparation{FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536"}, ReadAhead: 4096}, ""},
	{"  without nginx's read_ahead", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536"}, ReadAhead: 4096,
	}, "0"},
	{"  with noatime, allocsize=1m", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536"},
		Options: "noatime,allocsize=1m", ReadAhead: 4096,
	}, ""},
	{"  with 8 allocation groups instead of 4", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536", "-d", "agcount=8"}, ReadAhead: 4096,
	}, ""},
	{"  without sparse inodes", lab.Preparation{
		FileSystem: "xfs", MkfsArgs: []string{"-b", "size=65536", "-i", "sparse=0"}, ReadAhead: 4096,
	}, ""},
	{"ext4, blocks of 4 KiB, read-ahead 128 KiB", lab.Preparation{FileSystem: "ext4", ReadAhead: 128}, ""},
	{"ext4, read-ahead 4 MiB", lab.Preparation{FileSystem: "ext4", ReadAhead: 4096}, ""},
	{"ext4 bigalloc, clusters of 64 KiB, 4 MiB", lab.Preparation{
		FileSystem: "ext4", MkfsArgs: []string{"-O", "bigalloc", "-C", "65536"}, ReadAhead: 4096,
	}, ""},
}

var objects = []struct{ size, count int64 }{
	{4 * kibi, 500}, {64 * kibi, 400}, {256 * kibi, 200}, {1024 * kibi, 100}, {4096 * kibi, 50},
}

// row is the result for one way to prepare a disk. Each list contains one value for each size of objects, in the
// order of the variable objects.
type row struct {
	Way   string    `json:"way"`
	Reads []float64 `json:"readsPerHit"`
	Bytes []int64   `json:"bytesPerObject"`
	// Memory is the memory in bytes that an object takes after it was read, including the kernel's inode and directory
	// entry.
	Memory []int64 `json:"memoryBytesPerObject"`
}

func main() {
	out := flag.String("out", "", "a folder for the result as JSON and SVG")
	flag.Parse()
	rows, err := measure()
	if err == nil && *out != "" {
		err = write(rows, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "disks:", err)
		os.Exit(1)
	}
}

// write writes the result as JSON, and a chart that compares usual XFS with prepared XFS.
func write(rows []row, out string) error {
	if err := record.Write(out, "disks", rows); err != nil {
		return err
	}
	var bars []result.Bar
	for i, o := range objects {
		for _, r := range rows {
			name := map[string]string{usual: "usual", prepared: "prepared"}[r.Way]
			if name != "" {
				bars = append(bars, result.Bar{
					Name: fmt.Sprintf("%d KiB\n%s", o.size>>10, name), Values: []float64{r.Reads[i]},
				})
			}
		}
	}
	return result.Bars(filepath.Join(out, "disks.svg"), "usual: "+usual+"; prepared: "+prepared, "reads a hit", bars)
}

func measure() (rows []row, err error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "reads a hit (KiB on the disk an object, in memory)\t")
	for _, o := range objects {
		_, _ = fmt.Fprintf(table, "%d KiB\t\t", o.size>>10)
	}
	_, _ = fmt.Fprintln(table)
	for i, way := range ways {
		_, _ = fmt.Fprintf(table, "%s\t", way.name)
		r := row{Way: way.name}
		for _, o := range objects {
			price, err := cost(way.Preparation, way.readAhead, o.size, o.count)
			if errors.Is(err, lab.ErrMount) {
				fmt.Fprintf(os.Stderr, "%s: this kernel does not mount it: %v\n", way.name, err)
				break
			}
			if err != nil {
				return nil, errors.Join(table.Flush(), fmt.Errorf("%s: %w", way.name, err))
			}
			r.Reads = append(r.Reads, price.reads)
			r.Bytes, r.Memory = append(r.Bytes, price.space), append(r.Memory, price.memory)
			_, _ = fmt.Fprintf(table, "%.2f\t(%d, %d)\t", price.reads, price.space>>10, price.memory>>10)
		}
		_, _ = fmt.Fprintln(table)
		if len(r.Reads) == len(objects) {
			rows = append(rows, r)
		}
		fmt.Fprintf(os.Stderr, "%d of %d\n", i+1, len(ways))
	}
	return rows, table.Flush()
}

// price contains the cost of an object: the number of reads for a hit, the space on the disk in bytes, and the memory
// after the hit in bytes.
type price struct {
	reads         float64
	space, memory int64
}

// cost measures the price of objects of one size on a new disk.
func cost(p lab.Preparation, readAhead string, size, count int64) (_ price, err error) {
	l, err := lab.New("")
	if err != nil {
		return price{}, err
	}
	defer func() {
		if closeErr := l.Close(); err == nil {
			err = closeErr
		}
	}()
	disk, err := l.Disk("disk1", 1024, p)
	if err != nil {
		return price{}, err
	}
	s, err := start(l, disk, readAhead)
	if err != nil {
		return price{}, err
	}
	empty, err := used(disk.Dir)
	if err != nil {
		return price{}, err
	}
	if err := s.fetch(size, count); err != nil {
		return price{}, err
	}
	if err := lab.DropCaches(); err != nil {
		return price{}, err
	}
	full, err := used(disk.Dir)
	if err != nil {
		return price{}, err
	}
	before, err := s.look()
	if err != nil {
		return price{}, err
	}
	if err := s.fetch(size, count); err != nil {
		return price{}, err
	}
	after, err := s.look()
	if asked := after.asked - before.asked; err == nil && asked > 0 {
		err = fmt.Errorf("the origin was asked for %d objects that should be in the cache", asked)
	}
	return price{
		reads:  float64(after.reads-before.reads) / float64(count),
		space:  (full - empty) / count,
		memory: (after.memory - before.memory) / count,
	}, err
}

// counters contains the number of reads from the disk and the number of requests to the origin, both counted so far.
// memory is the memory that the cache uses now, in bytes.
type counters struct{ reads, memory, asked int64 }

func (c *cache) look() (n counters, err error) {
	use, err := c.Use()
	if err != nil {
		return n, err
	}
	n.reads = use.Reads
	if n.memory, err = c.Memory(); err != nil {
		return n, err
	}
	n.asked, err = c.site.OriginCount()
	return n, err
}

func used(dir string) (int64, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(dir, &stat)
	return int64(stat.Blocks-stat.Bfree) * stat.Bsize, err
}

// cache is nginx with one disk.
type cache struct {
	*lab.Lab
	*lab.Server
	site   lab.Site
	client string
}

func start(l *lab.Lab, disk lab.Disk, readAhead string) (*cache, error) {
	root, err := lab.Recipe("hack/nginx-root")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(l.Dir, "bin")
	build := exec.Command("go", "build", "-o", bin+"/", "./test/origin", "./test/client", "./cmd/kubectl-cachenode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	render := exec.Command(bin+"/kubectl-cachenode", "render", "-f", "-")
	render.Stdin = strings.NewReader(fmt.Sprintf(`apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: bench}
spec:
  disks: [{name: disk1, size: 1Gi, media: HDD}]
  origin: {servers: [{host: 127.0.0.1, port: %d}], hostHeader: bench}
  cache: {key: [RequestURI], valid: [{status: [200], for: 24h}]}
  memoryTier: {enabled: false}
`, lab.OriginPort))
	config, err := render.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl-cachenode render: %w", err)
	}
	text := "user root;\n" + string(config)
	if readAhead != "" {
		text = strings.ReplaceAll(text, "read_ahead ", "# read_ahead ")
		text = strings.Replace(text, "http {", "http { read_ahead "+readAhead+";", 1)
	}
	site, err := l.Site("cache")
	if err != nil {
		return nil, err
	}
	origin, err := l.Start("origin", site, nil, lab.Root{},
		"env", fmt.Sprintf("ORIGIN_ADDRESS=:%d", lab.OriginPort), bin+"/origin")
	if err != nil {
		return nil, err
	}
	if err := l.Await(site, origin, lab.OriginPort); err != nil {
		return nil, err
	}
	cgroup, err := l.Cgroup("cache", 4<<30, []lab.Disk{disk})
	if err != nil {
		return nil, err
	}
	if err := cgroup.Throttle(lab.Speed{}); err != nil {
		return nil, err
	}
	server, err := l.Start("nginx", site, cgroup, lab.Root{
		Dir: root, Tmpfs: []string{"/run", "/tmp", "/var/cache"},
		Binds: map[string]string{"/var/cache/cachenode/disk1/cachenode": disk.Dir},
		Files: map[string]string{"/tmp/nginx.conf": text, "/run/cachenode/README": ""},
	}, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
	if err != nil {
		return nil, err
	}
	return &cache{Lab: l, Server: server, site: site, client: bin + "/client"}, l.Await(site, server, lab.Port)
}

// fetch requests each of count objects of a size once. The client checks every byte.
func (c *cache) fetch(size, count int64) error {
	var paths strings.Builder
	for i := range count {
		fmt.Fprintf(&paths, "/objects/%d/%d\n", size, i)
	}
	command := c.Client(c.client, "fetch", "-base", c.site.URL(), "-keepalive")
	command.Stdin = strings.NewReader(paths.String())
	output, err := command.Output()
	if err == nil && strings.Contains(string(output), `"error":`) {
		err = errors.New("an object was not right")
	}
	if err != nil {
		return fmt.Errorf("the client: %w\n%s", err, output[max(0, len(output)-500):])
	}
	return nil
}
