// Package reload brings a new configuration into a running nginx, and proves that it took: nginx -t, an atomic rename, HUP,
// and then new workers that answer with the new version. Whatever fails, the last good file is in place again.
package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// RefusedError says that nginx did not take a configuration.
type RefusedError struct {
	// Message is what nginx said.
	Message string
	// slow: nobody said anything; nginx may yet take it.
	slow bool
}

func (e *RefusedError) Error() string { return e.Message }

// Nginx is the nginx of a pod. Apply, Reload and KillStuck must not be called concurrently; the other methods are safe for
// concurrent use.
type Nginx struct {
	// Program is nginx's, as a command: in tests with words before it.
	Program []string
	// Root goes before the paths of files, "" in a pod.
	Root string
	// URL is that of the private port.
	URL string
	// Client asks for the version; it must not keep connections, which would lead to old workers.
	Client *http.Client
	// TestTimeout bounds nginx -t, TakeTimeout the time until new workers answer.
	TestTimeout, TakeTimeout time.Duration

	// leaving has the old workers that are shutting down, since when. KillStuck alone uses it.
	leaving map[int]time.Time

	mutex  sync.Mutex
	emerg  []string
	reload bool // lines of level emerg are of interest
}

// File is a file that a configuration refers to. Its name changes with its content, so that the running configuration and
// the one that is tried can have different ones.
type File struct {
	Path    string
	Content []byte
	// Secret: nobody but nginx's user and group may read it.
	Secret bool
}

// answersInRow is how many answers with the new version, each over a connection of its own, show that the new workers are
// there and the old ones take no more connections.
const answersInRow = 5

// Apply makes nginx run the configuration. Where nginx does not run yet, it is left in place for its start. On failure
// the file of before is in place again, and the running nginx goes on as it was.
func (n *Nginx) Apply(ctx context.Context, config cache.Config, files []File) error {
	next := layout.ConfigFile + ".next"
	if err := n.writeAll(append(slices.Clone(files), File{Path: next, Content: []byte(config.Text)})); err != nil {
		return err
	}
	if err := n.test(ctx, next); err != nil {
		return err
	}
	good, err := os.ReadFile(n.Root + layout.ConfigFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(n.Root+next, n.Root+layout.ConfigFile); err != nil {
		return err
	}
	err = n.Reload(ctx, config.Version)
	if err != nil && good != nil {
		if restore := n.write(File{Path: layout.ConfigFile, Content: good}); restore != nil {
			return errors.Join(err, restore)
		}
		// A master that refused goes on as before; one that was only slow comes back to it.
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.slow {
			_ = n.signal(syscall.SIGHUP)
		}
	}
	if err == nil {
		n.sweep(files)
	}
	return err
}

// Put leaves a configuration in place that nginx runs already, for when it starts again.
func (n *Nginx) Put(config cache.Config, files []File) error {
	return n.writeAll(append(slices.Clone(files), File{Path: layout.ConfigFile, Content: []byte(config.Text)}))
}

func (n *Nginx) writeAll(files []File) error {
	for _, file := range files {
		if err := n.write(file); err != nil {
			return err
		}
	}
	return nil
}

// Reload tells a running nginx to read its file again and waits until new workers answer with the version.
func (n *Nginx) Reload(ctx context.Context, version string) error {
	if _, err := n.master(); err != nil {
		return nil //nolint:nilerr // nginx does not run: it will read the file when it starts
	}
	n.watch(true)
	defer n.watch(false)
	if err := n.signal(syscall.SIGHUP); err != nil {
		return nil //nolint:nilerr // it has just ended, and reads the file when it starts again
	}
	ctx, cancel := context.WithTimeout(ctx, n.TakeTimeout)
	defer cancel()
	for row := 0; ; {
		if got, err := n.Version(ctx); err == nil && got == version {
			if row++; row == answersInRow {
				return nil
			}
			continue
		}
		row = 0
		if lines := n.emergencies(); len(lines) > 0 {
			return &RefusedError{Message: strings.Join(lines, "; ")}
		}
		select {
		case <-ctx.Done():
			// The master's own word may have been lost. To try again and again would pile up workers.
			return &RefusedError{Message: fmt.Sprintf("no worker answers with version %s within %s of the reload", version, n.TakeTimeout), slow: true}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Version is what nginx's workers answer with: the version of the configuration that they run.
func (n *Nginx) Version(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/version", nil)
	if err != nil {
		return "", err
	}
	response, err := n.Client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 256))
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("version: status %d: %w", response.StatusCode, err)
	}
	return string(body), nil
}

// Emergency takes a line of level emerg from the error log, in which nginx says why it does not take a configuration.
func (n *Nginx) Emergency(text string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.reload && len(n.emerg) < 16 {
		n.emerg = append(n.emerg, text)
	}
}

func (n *Nginx) watch(on bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.reload, n.emerg = on, nil
}

func (n *Nginx) emergencies() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.emerg
}

// command runs nginx's program.
func (n *Nginx) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, n.Program[0], slices.Concat(n.Program[1:], args)...) //nolint:gosec // the program is ours
}

// ProgramVersion runs nginx -v.
func (n *Nginx) ProgramVersion(ctx context.Context) (string, error) {
	output, err := n.command(ctx, "-v").CombinedOutput()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(string(bytes.TrimSpace(output)), "nginx/")
	version, _, _ = strings.Cut(version, " ")
	return version, nil
}

// test runs nginx -t.
func (n *Nginx) test(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, n.TestTimeout)
	defer cancel()
	cmd := n.command(ctx, "-t", "-q", "-c", file, "-e", "stderr")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }() // one that hangs on a disk cannot be killed: the agent goes on without it
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("nginx -t takes longer than %s", n.TestTimeout)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		return err
	}
	return &RefusedError{Message: complaint(output.String())}
}

// complaint is what nginx -t printed of errors, without times and process ids, which are never the same twice.
func complaint(output string) string {
	var lines []string
	for text := range strings.Lines(output) {
		if _, rest, ok := strings.Cut(text, "[emerg] "); ok {
			if _, message, ok := strings.Cut(rest, ": "); ok {
				rest = message
			}
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(output)
	}
	return strings.Join(lines, "; ")
}

// master is the process id of nginx's master.
func (n *Nginx) master() (int, error) {
	text, err := os.ReadFile(n.Root + layout.PIDFile)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no process id", layout.PIDFile)
	}
	// The file outlives nginx, and its number may be another process's by then.
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(string(comm)) != "nginx" {
		return 0, fmt.Errorf("process %d is not nginx", pid)
	}
	return pid, nil
}

// Running is true while nginx's master lives.
func (n *Nginx) Running() bool {
	_, err := n.master()
	return err == nil
}

func (n *Nginx) signal(s syscall.Signal) error {
	pid, err := n.master()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// write writes a file as a whole or not at all.
func (n *Nginx) write(file File) error {
	mode := os.FileMode(0o644)
	if file.Secret {
		mode = 0o640
	}
	temporary := n.Root + file.Path + ".tmp"
	if err := os.WriteFile(temporary, file.Content, mode); err != nil {
		return err
	}
	return os.Rename(temporary, n.Root+file.Path)
}

// sweep deletes files of configurations that are gone. Those of the running one are all that nginx may read again.
func (n *Nginx) sweep(keep []File) {
	for _, pattern := range []string{layout.CAFile("*"), layout.ListenerCertificate("*"), layout.ListenerKey("*")} {
		files, _ := filepath.Glob(n.Root + pattern) // the pattern is right
		for _, file := range files {
			if !slices.ContainsFunc(keep, func(k File) bool { return n.Root+k.Path == file }) {
				_ = os.Remove(file)
			}
		}
	}
}
