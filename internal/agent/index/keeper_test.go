package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// site is an nginx with one disk. Its origin gives tags to each object.
type site struct {
	nginx *nginxtest.Nginx
	disk  Disk
}

func newSite(t *testing.T, cachePolicy string) *site {
	t.Helper()
	config := nginxtest.Render(t, `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}], hostHeader: www.example.com}
  memoryTier: {enabled: false}
  cache: {`+cachePolicy+`}
`)
	s := &site{nginx: nginxtest.New(t)}
	s.nginx.Configure(config.Text, "disk1")
	s.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Surrogate-Key", "all "+strings.Split(r.URL.Path, "/")[1])
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Vary", "X-Device")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat(r.URL.Path, 100000)))
	}))
	for folder := range cachekey.Folder(cachekey.Folders) { // in a pod, the keeper runs as nginx's user
		s.nginx.Mkdir(layout.CacheDir("disk1") + "/" + folder.Path())
	}
	s.nginx.Start()
	s.disk = Disk{
		Folder: s.nginx.Root + layout.CacheDir("disk1"), Index: open(t, t.TempDir()), TagHeaders: []string{"Surrogate-Key"},
	}
	return s
}

// get requests paths with a device in the header X-Device.
func (s *site) get(t *testing.T, device string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil)
		must(t, err)
		request.Host = "www.example.com"
		request.Header.Set("X-Device", device)
		response, err := s.nginx.Client().Do(request)
		must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		must(t, err)
		must(t, response.Body.Close())
	}
}

// file returns the file in which nginx has stored a path.
func (s *site) file(t *testing.T, path string) cachekey.File {
	t.Helper()
	f, ok := cachekey.ParseFile(filepath.Base(s.nginx.Cached("http://www.example.com"+path, "disk1")[0]))
	if !ok {
		t.Fatalf("nginx has stored %s in a file with another name", path)
	}
	return f
}

// keep starts a keeper. The function end stops the keeper and returns it.
func keep(t *testing.T, disk Disk) (end func() *Keeper) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &Keeper{Disk: disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	await.True(t, "the index is not complete", k.Complete)
	return func() *Keeper {
		cancel()
		must(t, <-ended)
		return k
	}
}

// has waits until the index contains exactly the files that are on the disk, and returns the number of these files.
func (d Disk) has(t *testing.T) (n int) {
	t.Helper()
	await.Until(t, func() string {
		var want, got []string
		_ = filepath.WalkDir(d.Folder, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				want = append(want, filepath.Base(path))
			}
			return nil // nginx may remove a file meanwhile
		})
		slices.Sort(want)
		for folder := range cachekey.Folder(cachekey.Folders) {
			got = append(got, names(t, d.Index.InFolder(folder))...)
		}
		slices.Sort(got)
		if n = len(got); slices.Equal(want, got) {
			return ""
		}
		return fmt.Sprintf("%d files on the disk, %d in the index", len(want), len(got))
	})
	return n
}

func TestKeeperFollowsNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	var news, sport []string
	for i := range 30 {
		news, sport = append(news, fmt.Sprintf("/news/%d", i)), append(sport, fmt.Sprintf("/sport/%d", i))
	}
	s.get(t, "phone", news...) // before the keeper starts
	end := keep(t, s.disk)
	s.get(t, "phone", sport...)
	s.get(t, "desktop", news[:5]...)
	if n := s.disk.has(t); n != 65 {
		t.Fatalf("%d files", n)
	}
	const host = "http://www.example.com"
	for what, got := range map[string]int{
		"65 with the tag all":     len(names(t, s.disk.Index.WithTag("all"))),
		"35 with the tag news":    len(names(t, s.disk.Index.WithTag("news"))),
		"30 below /sport":         len(names(t, s.disk.Index.WithPrefix(host+"/sport/"))),
		"2 variants of an object": len(names(t, s.disk.Index.WithKey(host+"/news/3"))),
		"1 variant of another":    len(names(t, s.disk.Index.WithKey(host+"/news/7"))),
	} {
		if !strings.HasPrefix(what, fmt.Sprint(got, " ")) {
			t.Errorf("%s: %d", what, got)
		}
	}
	for f, err := range s.disk.Index.WithPrefix(host + "/sport/") {
		must(t, err)
		must(t, os.Remove(filepath.Join(s.disk.Folder, f.Path())))
	}
	if n := s.disk.has(t); n != 35 {
		t.Errorf("%d files after a removal", n)
	}
	if k := end(); k.scanner.read < 30 || k.Complete() {
		t.Errorf("%d files were read in the first scan; complete at the end: %t", k.scanner.read, k.Complete())
	}
}

// TestKeeperStartsAgain checks that a new keeper finds the changes that were made while no keeper ran, and that it
// reads no other files.
func TestKeeperStartsAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	var paths []string
	for i := range 60 {
		paths = append(paths, fmt.Sprintf("/a/%d", i))
	}
	s.get(t, "phone", paths[:40]...)
	end := keep(t, s.disk)
	await.True(t, "nginx has not stored everything", func() bool { return s.disk.has(t) == 40 })
	end()
	checkpoint := s.disk.passes(t).Add(margin) // stale subtracts margin, so changes from now on count as new
	s.disk.Index.Clock = clocktesting.NewFakeClock(checkpoint)
	must(t, s.disk.Index.SetCheckpoint(checkpoint))
	s.get(t, "phone", paths[40:]...)
	gone := s.nginx.Cached("http://www.example.com"+paths[0], "disk1")[0]
	must(t, os.Remove(gone))
	k := keep(t, s.disk)()
	if n := s.disk.has(t); n != 59 {
		t.Errorf("%d files", n)
	}
	if read := k.scanner.read; read != 20 {
		t.Errorf("%d files were read for 20 new ones", read)
	}
}

// passes waits for the next tick of the clock from which the kernel sets the times of files. A tick takes a few
// milliseconds. passes returns a time that is later than all earlier changes, and not later than any future change.
func (d Disk) passes(t *testing.T) (between time.Time) {
	t.Helper()
	path := filepath.Join(d.Folder, "now")
	now := func() time.Time {
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chmod(path, 0o600))
		info, err := os.Stat(path)
		must(t, err)
		return changed(info)
	}
	before := now()
	await.True(t, "the clock of files stands still", func() bool {
		between = now()
		return between.After(before)
	})
	must(t, os.Remove(path))
	return between
}

// TestWithoutWatches checks that a keeper without inotify polls the folders. After a call of Sync, the index contains
// everything that nginx did before the call.
func TestWithoutWatches(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.get(t, "phone", "/a/1", "/a/2")
	k := &Keeper{Disk: s.disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	must(t, k.begin(t.Context()))
	must(t, k.watch.Close())
	fake := clocktesting.NewFakeClock(s.disk.Index.Clock.Now())
	s.disk.Index.Clock = fake
	ctx, cancel := context.WithCancel(t.Context())
	polled := newPoll(ctx, fake)
	k.polled, k.watch, k.watching = polled, polled, polled // as if there were no watches left
	ended := make(chan error, 1)
	go func() { ended <- k.run(ctx) }()
	for i := range 20 {
		fake.SetTime(s.disk.passes(t).Add(margin)) // only folders that change from now on count as changed
		path := fmt.Sprintf("/b/%d", i)
		s.get(t, "phone", path)
		f := s.file(t, path)
		await.Until(t, func() string { // the index is not complete at first
			if err := k.Sync(ctx); err != nil {
				return err.Error()
			}
			return ""
		})
		if _, ok, err := s.disk.Index.Get(f); err != nil || !ok {
			t.Fatalf("%s is not in the index (%v)", path, err)
		}
		if i%2 > 0 {
			must(t, os.Remove(filepath.Join(s.disk.Folder, f.Path())))
		}
	}
	cancel()
	must(t, <-ended)

	// A checkpoint is not later than the start of the last rescan. The next rescan therefore finds the files that were
	// stored in between.
	s.get(t, "phone", "/c/1")
	s.file(t, "/c/1") // waits until nginx has stored it
	fake.SetTime(s.disk.passes(t).Add(margin + time.Second))
	again := func() { // the mutex is needed: wakeUp may still read k.watching
		k.mutex.Lock()
		defer k.mutex.Unlock()
		k.watching = polled
	}
	polled.pause = time.Hour
	again()
	ctx, cancel = context.WithCancel(t.Context())
	polled.ended = ctx.Done()
	go func() { ended <- k.run(ctx) }()
	await.True(t, "the keeper does not wait for events", fake.HasWaiters)
	cancel()
	must(t, <-ended) // run has set a checkpoint before it ended
	again()
	ctx, cancel = context.WithCancel(t.Context())
	polled.ended = ctx.Done()
	go func() { ended <- k.run(ctx) }()
	must(t, k.Sync(ctx))
	cancel()
	must(t, <-ended)
	if n := len(names(t, s.disk.Index.WithTag("c"))); n != 1 {
		t.Errorf("the index has %d files of one that was stored before a checkpoint", n)
	}
	if n := len(names(t, s.disk.Index.WithTag("all"))); n != 13 {
		t.Errorf("the index has %d files, want 13", n)
	}
}

// TestPoll checks when a poll requests a rescan of the folders.
func TestPoll(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	p := newPoll(t.Context(), fake)
	if _, all, err := p.Next(0); !all || err != nil {
		t.Errorf("at once: %t, %v", all, err)
	}
	p.Wake()
	p.Wake()
	if _, all, err := p.Next(0); all || !errors.Is(err, ErrOverflow) {
		t.Errorf("when asked: %t, %v", all, err)
	}
	if _, all, err := p.Next(0); !all || err != nil {
		t.Errorf("once more: %t, %v", all, err)
	}
	fake.Step(pollAtLeast)
	if _, _, err := p.Next(time.Minute); !errors.Is(err, ErrOverflow) {
		t.Errorf("after the pause: %v", err)
	}
	fake.Step(time.Second)
	if p.took(); p.pause != pollShare*time.Second {
		t.Errorf("after a look of a second, the pause is %s", p.pause)
	}
}

// TestAfterReboot checks that a scan after a crash of the machine corrects the index where the file system has lost
// changes. The scan reads only files that the index lacks, and files whose entries in the index are from the last
// minutes.
func TestAfterReboot(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/a/%d", i))
	}
	s.get(t, "phone", paths...)
	keep(t, s.disk)()
	lost, back, replaced := s.file(t, paths[0]), s.file(t, paths[1]), s.file(t, paths[2])
	e, _, err := s.disk.Index.Get(replaced)
	must(t, err)
	since := s.disk.Index.Clock.Now().Add(time.Minute) // later than the times of all files
	e.Stored, e.Tags = since.Add(time.Second), []string{"lost"}
	must(t, os.Remove(filepath.Join(s.disk.Folder, lost.Path())))
	must(t, s.disk.Index.Apply([]Change{{File: back}, {File: replaced, Entry: &e}}))
	must(t, s.disk.Index.SetCheckpoint(s.disk.Index.Clock.Now()))

	s.disk.Index.boot = "another boot"
	list, err := s.disk.stale()
	if must(t, err); len(list) != cachekey.Folders {
		t.Errorf("%d folders are looked at", len(list))
	}
	scan := scanner{
		Disk: s.disk, unreadable: map[cachekey.File]int{},
		pace: func() error { return nil }, pause: func() error { return nil },
	}
	for _, of := range list {
		must(t, scan.scan(stale{of.folder, since, true, true}))
	}
	if n := s.disk.has(t); n != 39 {
		t.Errorf("%d files are in the index, want 39", n)
	}
	if scan.read != 2 {
		t.Errorf("%d files were read, want the one that is back and the one whose replacement is lost", scan.read)
	}
	if n := len(names(t, s.disk.Index.WithTag("a"))); n != 39 {
		t.Errorf("%d files have the tag that they have on the disk", n)
	}
	list, err = s.disk.stale()
	must(t, err) // folders that were just created count as changed
	if n := len(slices.DeleteFunc(list, func(s stale) bool { return !s.rebooted })); n > 0 {
		t.Errorf("%d folders still count as from before the reboot", n)
	}
}

func TestKeeperWithSlices(t *testing.T) {
	t.Parallel()
	s := newSite(t, "slice: {size: 1Mi}")
	s.get(t, "phone", "/large/enough") // 1.3 MB
	defer keep(t, s.disk)()
	s.get(t, "phone", "/large/later")
	s.disk.has(t)
	for _, path := range []string{"/large/enough", "/large/later"} {
		if n := len(names(t, s.disk.Index.WithKey("http://www.example.com"+path))); n != 2 {
			t.Errorf("%s is in %d files", path, n)
		}
	}
}

// TestOverflow stores files while nobody reads the events, so that the kernel drops some events. It checks that the
// watch reports this.
func TestOverflow(t *testing.T) {
	t.Parallel()
	disk := Disk{Folder: t.TempDir(), Index: open(t, t.TempDir())}
	end := keep(t, disk)
	defer func() { end() }()
	must(t, disk.Index.SetCheckpoint(disk.Index.Clock.Now()))
	watch, err := NewWatch(disk.Folder)
	must(t, err)
	defer func() { _ = watch.Close() }()
	temporary := filepath.Join(disk.Folder, "temporary")
	var folder cachekey.Folder
	for i := range 20000 { // the kernel keeps 16,384 events
		f := cachekey.File{byte(i >> 8), byte(i)}
		folder = f.Folder()
		must(t, os.WriteFile(temporary, nil, 0o600))
		must(t, os.Rename(temporary, filepath.Join(disk.Folder, f.Path())))
	}
	seen, lost := 0, false
	for !lost {
		files, all, err := watch.Next(time.Second)
		if lost = errors.Is(err, ErrOverflow); err != nil && !lost {
			t.Fatal(err)
		}
		if seen += len(files); all && !lost {
			t.Fatalf("%d files were seen, and nobody says that some are missing", seen)
		}
	}
	if seen >= 20000 || seen < 10000 || folder != 0 {
		t.Errorf("%d files were seen", seen)
	}
}

// TestKeeperAfterOverflow checks that after a loss of events, a keeper finds the files that it has not seen.
func TestKeeperAfterOverflow(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	k := &Keeper{Disk: s.disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	must(t, k.begin(t.Context()))
	defer func() { must(t, k.watch.Close()) }()
	k.pending = nil
	s.get(t, "phone", "/a/1")
	other := filepath.Join(s.disk.Folder, "other")
	for i := range 17000 {
		must(t, os.WriteFile(other, nil, 0o600))
		must(t, os.Rename(other, filepath.Join(s.disk.Folder, cachekey.File{byte(i), byte(i >> 8)}.Path())))
	}
	s.get(t, "phone", "/a/2")
	for range 100 { // reads the events from before the loss
		if _, err := k.follow(true); err != nil {
			t.Fatal(err)
		}
		if len(k.pending) > 0 {
			break
		}
	}
	if len(k.pending) == 0 {
		t.Fatal("nothing is to be rescanned")
	}
	for _, folder := range k.pending {
		must(t, k.scanner.scan(folder))
	}
	if n := len(names(t, s.disk.Index.WithPrefix("http://www.example.com/a/"))); n != 2 {
		t.Errorf("the index has %d objects of 2", n)
	}
}

// TestKeeperWithoutFolders renames the cache folder, as the agent does when it empties a cache. The keeper must end
// with ErrGone.
func TestKeeperWithoutFolders(t *testing.T) {
	t.Parallel()
	disk := Disk{Folder: filepath.Join(t.TempDir(), "cache"), Index: open(t, t.TempDir())}
	must(t, os.Mkdir(disk.Folder, 0o700))
	k := &Keeper{Disk: disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	ended := make(chan error, 1)
	go func() { ended <- k.Run(t.Context()) }()
	await.True(t, "the index is not complete", k.Complete)
	must(t, os.Rename(disk.Folder, disk.Folder+"-old"))
	if err := <-ended; !errors.Is(err, ErrGone) || k.Complete() {
		t.Errorf("the keeper ends with %v; complete: %t", err, k.Complete())
	}
}
