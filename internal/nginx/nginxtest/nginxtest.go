// Package nginxtest runs the real nginx in tests. Each nginx has its own overlay over a root file system
// (hack/nginx-root) and its own network namespace, so that parallel tests can use the same ports and paths. The package
// needs Linux and root.
//
// Only tests and benchmarks import the package. It contains the code that the tests of several packages need to run
// nginx. Code that depends on the purpose of a directive does not belong here.
package nginxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// id is the user and group as which nginx runs. They are the same as in a pod.
const id = 101

// Nginx is a root file system that contains nginx.
type Nginx struct {
	t *testing.T
	// Root is the root file system, as a path on the host.
	Root string
	// network is the open file of the network namespace. networkMutex guards the closing of network.
	network      *os.File
	networkMutex sync.Mutex
	log          *os.File
	// limits is the beginning of nginx's command line: a program that lowers the limits and then runs nginx.
	limits []string
	// master is nginx's master process.
	master int
	// reports are the lines that nginx sent to the agent.
	mutex   sync.Mutex
	reports []string
	agent   bool
}

// New mounts a new overlay. The environment variable NGINX_ROOT contains the path of the root file system below the
// overlay; make test sets this variable.
func New(t *testing.T) *Nginx {
	t.Helper()
	lower := os.Getenv("NGINX_ROOT")
	if lower == "" {
		t.Fatal("NGINX_ROOT is not set: use make test-unit, or NGINX_ROOT=$(hack/nginx-root) go test")
	}
	// The path of t.TempDir contains the test's name. A comma in that name would separate options of the mount.
	dir, err := os.MkdirTemp("", "nginx") //nolint:usetesting // a comma in the path would break the mount
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	for _, name := range []string{"upper", "work", "root"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	root := filepath.Join(dir, "root")
	options := "lowerdir=" + lower + ",upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	must(t, unix.Mount("overlay", root, "overlay", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(root, unix.MNT_DETACH)) })
	bind(t, "/proc", root)
	// Only these devices are mounted, and not the whole /dev. If a test is killed, its mounts stay. Somebody who then
	// removes the folders of the test must not remove the host's /dev with them.
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		bind(t, "/dev/"+name, root)
	}
	for name, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, root+"/dev/"+name); !errors.Is(err, fs.ErrExist) {
			must(t, err)
		}
	}
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must(t, os.Chmod(parent, 0o755))
	}
	n := &Nginx{t: t, Root: root}
	for _, writable := range []string{layout.RunDir, layout.ConfigDir} {
		n.Mkdir(writable)
	}
	return n
}

// bind mounts a folder or a device of the host at the same path below a root, until the test ends.
func bind(t *testing.T, path, root string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if info.IsDir() {
		must(t, os.MkdirAll(root+path, 0o755))
	} else {
		must(t, os.MkdirAll(filepath.Dir(root+path), 0o755))
		file, err := os.OpenFile(root+path, os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			must(t, err)
			must(t, file.Close())
		}
	}
	must(t, unix.Mount(path, root+path, "", unix.MS_BIND|unix.MS_REC, ""))
	must(t, unix.Mount("", root+path, "", unix.MS_PRIVATE|unix.MS_REC, ""))
	t.Cleanup(func() { must(t, unix.Unmount(root+path, unix.MNT_DETACH)) })
}

// Mkdir creates a folder that nginx can write to. Files that other users create in the folder get the group of the
// folder, as in a pod.
func (n *Nginx) Mkdir(path string) {
	n.t.Helper()
	must(n.t, os.MkdirAll(n.Root+path, 0o755))
	must(n.t, os.Chown(n.Root+path, id, id))
	must(n.t, os.Chmod(n.Root+path, 0o755|os.ModeSetgid))
}

// modest reduces the number of threads and connections in a configuration, because no test needs so many. A pod creates
// its threads and connections only once, but many tests spend most of their time on the start of nginx.
func modest(text string) string {
	text = usualThreads.ReplaceAllString(text, "$1 threads=4 ")
	return strings.Replace(text, "worker_connections 16384;", "worker_connections 4096;", 1)
}

var usualThreads = regexp.MustCompile(`(thread_pool \w+) threads=\d\d `)

// Configure writes nginx.conf and its script, and creates the folders of the disks.
func (n *Nginx) Configure(text string, disks ...string) {
	n.t.Helper()
	must(n.t, os.WriteFile(n.Root+cache.ScriptFile(), []byte(cache.Script), 0o644))
	must(n.t, os.WriteFile(n.Root+layout.ConfigFile, []byte(modest(text)), 0o644))
	for _, disk := range disks {
		n.Disk(disk)
	}
}

// Disk creates the folders of a disk as the agent does.
func (n *Nginx) Disk(disk string) {
	n.t.Helper()
	n.Mkdir(layout.DiskDir(disk))
	n.Mkdir(layout.DiskDir(disk) + "/" + layout.OwnFolder)
}

// Test runs nginx -t and returns its output.
func (n *Nginx) Test() (output string, err error) {
	n.t.Helper()
	cmd := n.command("-t", "-e", "stderr")
	// The output goes to a file that nginx's user owns, because nginx opens /dev/stdout by its name. A pipe would belong
	// to root, so nginx could not open it.
	log, err := os.CreateTemp(n.t.TempDir(), "log")
	must(n.t, err)
	defer func() { _ = log.Close() }()
	must(n.t, log.Chown(id, id))
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	text, readErr := os.ReadFile(log.Name())
	must(n.t, readErr)
	return string(text), err
}

// Start runs nginx until the test ends, and waits until it answers on the private port.
func (n *Nginx) Start() {
	n.t.Helper()
	n.namespace()
	n.collect()
	// nginx opens /dev/stdout by its name, so the file must belong to its user.
	log, err := os.OpenFile(n.t.TempDir()+"/log", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	must(n.t, err)
	must(n.t, log.Chown(id, id))
	must(n.t, os.Chmod(filepath.Dir(log.Name()), 0o755))
	n.log = log
	cmd := n.command("-e", "stderr")
	cmd.Stdout, cmd.Stderr = log, log
	must(n.t, n.inside(cmd.Start))
	n.master = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if n.t.Failed() {
			n.t.Logf("nginx's log:\n%s", n.Log())
		}
		_ = log.Close()
	})
	client := n.Client()
	Becomes(n.t, "nginx answers", func() string {
		select {
		case <-ended:
			n.t.Fatal("nginx ended instead of answering")
		default:
		}
		response, err := client.Get("http://127.0.0.1:8081/healthz")
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, n.Log())
		}
		_ = response.Body.Close()
		return "nginx answers"
	})
}

// collect receives nginx's reports in place of the agent. It does nothing after a call of Agent.
func (n *Nginx) collect() {
	if n.agent {
		return
	}
	socket := n.ListenPacket(layout.LogAddress)
	n.t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 65536)
		for {
			size, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			n.mutex.Lock()
			n.reports = append(n.reports, string(buffer[:size]))
			n.mutex.Unlock()
		}
	}()
}

// Agent listens on the address to which nginx sends its reports for the agent. Call it before Start.
func (n *Nginx) Agent() net.PacketConn {
	n.t.Helper()
	n.agent = true
	return n.ListenPacket(layout.LogAddress)
}

// Reports returns the lines that nginx has sent to the agent so far.
func (n *Nginx) Reports() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return slices.Clone(n.reports)
}

// Program returns the command that runs this nginx. It is for tests of code that starts nginx itself.
func (n *Nginx) Program() []string {
	n.t.Helper()
	n.namespace()
	return []string{"nsenter", "--net=" + n.netns(), "chroot", "--userspec=101:101", n.Root, "nginx"}
}

// Inside returns a command of the host that runs in nginx's network namespace.
func (n *Nginx) Inside(args ...string) *exec.Cmd {
	n.t.Helper()
	n.namespace()
	return exec.Command("nsenter", append([]string{"--net=" + n.netns()}, args...)...)
}

// LimitFiles makes nginx run with a hard limit on open files. Call it before Start.
func (n *Nginx) LimitFiles(limit int) {
	n.limits = []string{"/usr/bin/prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit)}
}

// Processes returns nginx's master and its children.
func (n *Nginx) Processes() []int {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", n.master, n.master))
	must(n.t, err)
	pids := []int{n.master}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		must(n.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// Cached returns the files on disks that contain the response for a key. It waits for such a file, because nginx
// renames its temporary file only after a client has received the response. It fails the test if there is no such
// file.
func (n *Nginx) Cached(key string, disks ...string) (paths []string) {
	n.t.Helper()
	folders := make([]string, len(disks))
	for i, disk := range disks {
		folders[i] = layout.DiskDir(disk)
	}
	return n.CachedIn(key, folders...)
}

// CachedIn does the same as Cached, but searches the given folders.
func (n *Nginx) CachedIn(key string, folders ...string) (paths []string) {
	n.t.Helper()
	Becomes(n.t, key+" is stored", func() string {
		for _, folder := range folders {
			paths = append(paths, n.cached(key, n.Root+folder)...)
		}
		if len(paths) == 0 {
			return key + " is nowhere"
		}
		return key + " is stored"
	})
	return paths
}

// cached returns the files below a folder that contain the response for a key. nginx may rename or remove files in
// the meantime.
func (n *Nginx) cached(key, dir string) (paths []string) {
	n.t.Helper()
	mark := []byte("\nKEY: " + key + "\n")
	start := make([]byte, 64<<10) // the key comes before the body, and the body begins within these bytes
	must(n.t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		isTemporary := strings.Contains(filepath.Base(path), ".")
		if isTemporary || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		size, err := io.ReadFull(file, start)
		if bytes.Contains(start[:size], mark) {
			paths = append(paths, path)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		return err
	}))
	return paths
}

// Log returns what nginx has logged so far.
func (n *Nginx) Log() string {
	n.t.Helper()
	text, err := os.ReadFile(n.log.Name())
	must(n.t, err)
	return string(text)
}

// command returns a command that runs nginx with Root as its root folder (chroot). nginx runs as the same user as in a
// pod.
func (n *Nginx) command(args ...string) *exec.Cmd {
	args = slices.Concat(n.limits, []string{"/usr/sbin/nginx", "-c", layout.ConfigFile}, args)
	return &exec.Cmd{
		Path: args[0], Args: args, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Chroot: n.Root, Credential: &syscall.Credential{Uid: id, Gid: id}},
	}
}

// Errors returns the lines of a log, or of nginx -t's output, with level warn or above.
func Errors(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		for _, level := range []string{"[warn]", "[error]", "[crit]", "[alert]", "[emerg]"} {
			if strings.Contains(line, level) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
