package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Root describes the file system that a server sees: a Debian root file system with other file systems mounted over
// it.
type Root struct {
	// Dir is the folder of the Debian root (hack/debian-root).
	Dir string
	// Tmpfs lists the folders on which an empty tmpfs is mounted. The memory of a tmpfs counts for the server's cgroup. A
	// folder must come before the folders that it contains. TmpfsOptions maps a folder to additional mount options, such
	// as a size.
	Tmpfs        []string
	TmpfsOptions map[string]string
	// Binds maps a path that the server sees to the folder of the lab that is mounted there. The path may be in a tmpfs.
	Binds map[string]string
	// Files maps a path to the content of the file that is written there before the server starts. The path must be in a
	// tmpfs.
	Files map[string]string
	// Owner is the user who owns the tmpfs and the files; "" for root.
	Owner string
}

// Server is a process of the lab.
type Server struct {
	*Cgroup
	process *exec.Cmd
	log     string
	stop    sync.Once
}

// Start starts a server at a site, in its own namespaces for mounts and processes. The server runs in the given cgroup;
// nil means that it has no separate cgroup. The server ends at the latest when the lab closes.
func (l *Lab) Start(name string, site Site, cgroup *Cgroup, root Root, command ...string) (*Server, error) {
	s := &Server{Cgroup: cgroup, log: filepath.Join(l.Dir, name+".log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	files := filepath.Join(l.Dir, name)
	for path, text := range root.Files {
		if err := os.WriteFile(files+strings.ReplaceAll(path, "/", "_"), []byte(text+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	args := []string{
		"--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-euc", script(site, cgroup, root, files), "sh",
	}
	args = append(args, command...)
	s.process = exec.Command("unshare", args...)
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	l.cleanup(s.Stop)
	return s, nil
}

// script returns a shell script that prepares the file system of the server, joins the cgroup, and then executes the
// server's command. files is the prefix of the paths at which the contents of root.Files are stored.
func script(site Site, cgroup *Cgroup, root Root, files string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("mount --make-rprivate /")
	if root.Dir != "" {
		line("mount --types proc none %s/proc", root.Dir)
	}
	if cgroup != nil {
		for _, file := range cgroup.procs() {
			line("echo $$ >%s", file)
		}
	}
	for _, dir := range root.Tmpfs {
		options := strings.TrimSuffix("mode=777,"+root.TmpfsOptions[dir], ",")
		line("mkdir -p %[1]s%[2]s && mount -t tmpfs -o %[3]s tmpfs %[1]s%[2]s", root.Dir, dir, options)
	}
	for target, source := range root.Binds {
		line("mkdir -p %[1]s%[2]s && mount --bind %[3]s %[1]s%[2]s", root.Dir, target, source)
	}
	for path := range root.Files {
		line("mkdir -p $(dirname %[1]s%[2]s) && cp %[3]s %[1]s%[2]s",
			root.Dir, path, files+strings.ReplaceAll(path, "/", "_"))
	}
	if root.Owner != "" {
		for _, dir := range root.Tmpfs {
			line("chroot %s chown -R %s %s", root.Dir, root.Owner, dir)
		}
	}
	line("ulimit -n $(ulimit -Hn)")
	servers, others := processors(runtime.NumCPU())
	if cgroup == nil {
		servers = others
	}
	enter := "exec " + strings.Join(on(servers, "nsenter", "--net=/run/netns/"+site.namespace, "--"), " ")
	if root.Dir != "" {
		enter += " chroot " + root.Dir
	}
	line(`%s "$@"`, enter)
	return b.String()
}

// Stop kills the server and all processes that it has started, and waits until the server has ended.
func (s *Server) Stop() (err error) {
	s.stop.Do(func() {
		err = s.process.Process.Kill()
		_ = s.process.Wait() // the error only says that it was killed
	})
	return err
}

// Running returns nil while the server runs. Once the server has ended, it returns an error that contains the
// server's output.
func (s *Server) Running() error {
	if err := s.process.Process.Signal(syscall.Signal(0)); err == nil && s.alive() {
		return nil
	}
	text, _ := os.ReadFile(s.log)
	return fmt.Errorf("the server has ended:\n%s", text)
}

// alive returns true if the process exists and is not a zombie.
func (s *Server) alive() bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(s.process.Process.Pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Await waits until something listens on a port of a site.
func (l *Lab) Await(site Site, s *Server, port int) error {
	address := net.JoinHostPort(site.Address, strconv.Itoa(port))
	for range 300 {
		if err := s.Running(); err != nil {
			return err
		}
		if l.Client("bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(address, ":", "/", 1)).Run() == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(s.log)
	return errors.New("nothing listens at " + address + ":\n" + string(text))
}

// Descendants returns the processor time of each process that the server has started and whose command line begins
// with command, by process id.
func (s *Server) Descendants(command string) (map[int]time.Duration, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	parents, found := map[int]int{}, map[int]time.Duration{}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has just ended
		}
		parents[p.PID] = stat.PPID
		if line, err := p.CmdLine(); err == nil && strings.HasPrefix(strings.Join(line, " "), command) {
			found[p.PID] = time.Duration(stat.CPUTime() * float64(time.Second))
		}
	}
	for pid := range found {
		ancestor := pid
		for ancestor > 1 && ancestor != s.process.Process.Pid {
			ancestor = parents[ancestor]
		}
		if ancestor <= 1 {
			delete(found, pid)
		}
	}
	return found, nil
}
