// Package reload gives a new configuration to a running nginx and verifies that nginx runs it: nginx -t, an atomic
// rename, SIGHUP, and then new workers that answer with the new version. After any failure, the last good file is in
// place again.
//
// It imports layout, the renderer (nginx/cache) and nginxlog. A new check of a configuration goes here.
package reload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// RefusedError is the error for a configuration that nginx did not take.
type RefusedError struct {
	// Message describes the refusal: normally, it is Lines, joined.
	Message string
	// Lines are the messages that nginx logged at level emerg, without times and process IDs. It is empty if nginx
	// reported nothing.
	Lines []string
	// Disk is the name of the disk on which a system call failed, according to Lines; "" if Lines name no disk.
	Disk string
	// Slow is true if nginx reported nothing in time: nginx may still take the configuration.
	Slow bool
}

func (e *RefusedError) Error() string { return e.Message }

// refused returns the error for messages of nginx.
func refused(lines []string) *RefusedError {
	e := &RefusedError{Message: strings.Join(lines, "; "), Lines: lines}
	for _, line := range lines {
		e.Disk = cmp.Or(e.Disk, nginxlog.FailedDisk(line))
	}
	return e
}

// Nginx is the nginx of a pod. Apply, Reload and KillStuck must not be called concurrently; the other methods are safe
// for concurrent use.
type Nginx struct {
	// Program is the command that runs nginx. In tests, other programs come before nginx in the command, and start
	// nginx.
	Program []string
	// Root is a prefix of the paths of files; "" in a pod.
	Root string
	// URL is the URL of the private port.
	URL string
	// Client requests the version. It must not keep connections open, because a kept connection would lead to an old
	// worker.
	Client *http.Client
	// TestTimeout limits the duration of nginx -t. TakeTimeout limits the time until new workers answer.
	TestTimeout, TakeTimeout time.Duration

	// leaving are the old workers that are shutting down. Only KillStuck uses it.
	leaving map[int]oldWorker
	// replaced contains the process IDs of the workers that started before the last successful reload and that still
	// run.
	replaced []int

	mutex  sync.Mutex
	emerg  []string
	reload bool // true while lines of level emerg are kept
}

// askTime limits one request for the version. A worker can accept the connection and then wait for a disk that hangs,
// while other workers would answer.
const askTime = time.Second

// answersInRow is the number of consecutive answers with the new version after which a reload counts as complete: the
// new workers run, and the old ones accept no more connections. Each answer comes over its own connection.
const answersInRow = 5

// Apply makes nginx run the configuration. If nginx does not run yet, nginx reads the file when it starts. After a
// failure the previous file is in place again, and the running nginx continues with it.
func (n *Nginx) Apply(ctx context.Context, config cache.Config, files []cache.File) error {
	if err := n.Check(ctx, config, files); err != nil {
		return err
	}
	good, err := os.ReadFile(n.Root + layout.ConfigFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(n.Root+nextFile, n.Root+layout.ConfigFile); err != nil {
		return err
	}
	err = n.Reload(ctx, config.Version)
	if err != nil && good != nil {
		if restore := n.Write(cache.File{Path: layout.ConfigFile, Content: good}); restore != nil {
			return errors.Join(err, restore)
		}
		// A master that refused the configuration still runs the previous one. A slow master needs another signal to return
		// to the previous configuration.
		if e, ok := errors.AsType[*RefusedError](err); !ok || e.Slow {
			_ = n.signal(syscall.SIGHUP)
		}
	}
	if err == nil {
		n.sweep(files)
	}
	return err
}

// nextFile is the file with a configuration that nginx has yet to take.
const nextFile = layout.ConfigFile + ".next"

// Check runs nginx -t with the configuration, and changes nothing that nginx reads. The error is a [RefusedError] if
// nginx refuses the configuration.
func (n *Nginx) Check(ctx context.Context, config cache.Config, files []cache.File) error {
	next := cache.File{Path: nextFile, Content: []byte(config.Text)}
	if err := n.writeAll(append(slices.Clone(files), next)); err != nil {
		return err
	}
	return n.test(ctx, nextFile)
}

// Put writes a configuration that nginx already runs, for the next start of nginx.
func (n *Nginx) Put(config cache.Config, files []cache.File) error {
	return n.writeAll(append(slices.Clone(files), cache.File{Path: layout.ConfigFile, Content: []byte(config.Text)}))
}

func (n *Nginx) writeAll(files []cache.File) error {
	for _, file := range files {
		if err := n.Write(file); err != nil {
			return err
		}
	}
	return nil
}

// Reload makes a running nginx read its file again and waits until new workers answer with the version.
func (n *Nginx) Reload(ctx context.Context, version string) error {
	master, err := n.master()
	if err != nil {
		return nil //nolint:nilerr // nginx does not run; it reads the file when it starts
	}
	before := slices.Collect(maps.Keys(workers(master)))
	n.watch(true)
	defer n.watch(false)
	if err := n.signal(syscall.SIGHUP); err != nil {
		return nil //nolint:nilerr // nginx has just ended; it reads the file when it starts again
	}
	ctx, cancel := context.WithTimeout(ctx, n.TakeTimeout)
	defer cancel()
	for row := 0; ; {
		if got, err := n.versionWithin(ctx, askTime); err == nil && got == version {
			if row++; row == answersInRow {
				n.replaced = before // includes workers from before earlier reloads
				return nil
			}
			continue
		}
		row = 0
		if lines := n.emergencies(); len(lines) > 0 {
			return refused(lines)
		}
		select {
		case <-ctx.Done():
			// The master may have refused the configuration, and its log line may be lost. The configuration counts as
			// refused, because each further reload would add more workers.
			message := fmt.Sprintf("no worker answers with version %s within %s of the reload", version, n.TakeTimeout)
			return &RefusedError{Message: message, Slow: true}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *Nginx) versionWithin(ctx context.Context, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return n.Version(ctx)
}

// Version returns the version of the configuration that nginx's workers run, as one of the workers reports it.
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

// Emergency receives a line of level emerg from the error log. In such lines, nginx reports why it does not take a
// configuration.
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

// command returns a command that runs nginx's program.
func (n *Nginx) command(ctx context.Context, args ...string) *exec.Cmd {
	args = slices.Concat(n.Program[1:], args)
	return exec.CommandContext(ctx, n.Program[0], args...) //nolint:gosec // the program is ours
}

// ProgramVersion returns the version that nginx -v prints.
func (n *Nginx) ProgramVersion(ctx context.Context) (string, error) {
	output, err := n.command(ctx, "-v").CombinedOutput()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(string(bytes.TrimSpace(output)), "nginx/")
	version, _, _ = strings.Cut(version, " ")
	return version, nil
}

// HasScripts reports whether nginx has the module for the script in the configurations, and accepts the script. If
// HasScripts returns an error, the answer is not known.
func (n *Nginx) HasScripts(ctx context.Context) (bool, error) {
	trial := cache.File{Path: layout.ConfigFile + ".scripts", Content: []byte(cache.TrialOfScripts())}
	script := cache.File{Path: cache.ScriptFile(), Content: []byte(cache.Script)}
	if err := n.writeAll([]cache.File{script, trial}); err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(n.Root + trial.Path) }()
	err := n.test(ctx, trial.Path)
	if e, ok := errors.AsType[*RefusedError](err); ok && slices.ContainsFunc(e.Lines, aboutScripts) {
		return false, nil
	}
	return err == nil, err
}

// aboutScripts reports whether a message of nginx shows a problem with the module for scripts. The module may be
// missing or not fit nginx, it may not know a directive, or it may not accept the script.
func aboutScripts(line string) bool {
	return strings.Contains(line, cache.Module) || strings.Contains(line, "js_") ||
		strings.Contains(line, cache.ScriptFile()) || strings.Contains(line, "Error: ")
}

// test runs nginx -t.
func (n *Nginx) test(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, n.TestTimeout)
	defer cancel()
	cmd := n.command(ctx, "-t", "-q", "-c", file, "-e", "stderr")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }() // nobody waits for a program that hangs on a disk: it cannot be killed
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("nginx -t takes longer than %s", n.TestTimeout)
	}
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || !e.Exited() { // a killed program has refused nothing
		return err
	}
	e := refused(complaints(output.String()))
	e.Message = cmp.Or(e.Message, strings.TrimSpace(output.String()))
	return e
}

// process matches the process ID and the thread ID that nginx writes before a message, unless nginx writes to a
// terminal.
var process = regexp.MustCompile(`^\d+#\d+: `)

// complaints returns the errors that nginx -t printed. It removes the times and process IDs, because they differ each
// time.
func complaints(output string) (lines []string) {
	for text := range strings.Lines(output) {
		if _, message, ok := strings.Cut(text, "[emerg] "); ok {
			lines = append(lines, strings.TrimSpace(process.ReplaceAllString(message, "")))
		}
	}
	return lines
}

// master returns the process id of nginx's master.
func (n *Nginx) master() (int, error) {
	text, err := os.ReadFile(n.Root + layout.PIDFile)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no process id", layout.PIDFile)
	}
	// The file outlives nginx, so the process id may belong to another process by now.
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(string(comm)) != "nginx" {
		return 0, fmt.Errorf("process %d is not nginx", pid)
	}
	return pid, nil
}

// Master returns the process id of nginx's master; 0 if it does not run.
func (n *Nginx) Master() int {
	master, err := n.master()
	if err != nil {
		return 0
	}
	return master
}

// Running reports whether nginx's master runs.
func (n *Nginx) Running() bool { return n.Master() != 0 }

func (n *Nginx) signal(s syscall.Signal) error {
	pid, err := n.master()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// Write writes a file atomically.
func (n *Nginx) Write(file cache.File) error {
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

// sweep deletes files that only earlier configurations used: CA files, scripts, and certificates and keys for clients
// and other pods. Later, nginx reads only the files of the running configuration.
func (n *Nginx) sweep(keep []cache.File) {
	for _, pattern := range []string{
		layout.CAFile("*"), layout.ListenerCertificate("*"), layout.ListenerKey("*"), layout.ScriptFile("*"),
		layout.PeerCertificate("*"), layout.PeerKey("*"), // the first pattern matches authorities too
	} {
		files, _ := filepath.Glob(n.Root + pattern) // the pattern is valid
		for _, file := range files {
			if !slices.ContainsFunc(keep, func(k cache.File) bool { return n.Root+k.Path == file }) {
				_ = os.Remove(file)
			}
		}
	}
}
