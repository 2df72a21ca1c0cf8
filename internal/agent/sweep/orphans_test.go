package sweep

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/reload"
)

func TestOrphansAreDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	boot := now.Add(-48 * time.Hour)
	nginx := func(master, oldest time.Duration) reload.Processes {
		return reload.Processes{Boot: boot, Master: master, Oldest: oldest}
	}
	for name, tt := range map[string]struct {
		last  pass
		nginx reload.Processes
		want  bool
	}{
		"nginx has started":               {pass{}, nginx(time.Hour, time.Hour), true},
		"it has no worker that is older":  {pass{}, nginx(time.Hour, time.Hour+time.Second), true},
		"an older worker runs":            {pass{}, nginx(time.Hour, time.Minute), false},
		"after a pass":                    {pass{now, time.Hour}, nginx(time.Hour, time.Hour), false},
		"nginx has started again":         {pass{now, time.Hour}, nginx(2*time.Hour, 2*time.Hour), true},
		"an older worker still runs":      {pass{now, time.Hour}, nginx(2*time.Hour, time.Hour), false},
		"an older worker than the master": {pass{now, time.Hour}, nginx(2*time.Hour, time.Hour+time.Minute), false},
		"new workers":                     {pass{now, time.Hour}, nginx(time.Hour, 2*time.Hour), false},
		"new workers, a day later": {
			pass{now.Add(-24 * time.Hour), time.Hour}, nginx(time.Hour, 2*time.Hour), true,
		},
		"the same workers, a day later": {pass{now.Add(-24 * time.Hour), time.Hour}, nginx(time.Hour, time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.last.isDue(now, tt.nginx); got != tt.want {
				t.Errorf("due is %t, want %t", got, tt.want)
			}
		})
	}
}

// TestOrphans checks that Remove removes exactly the old files whose names are names of nginx's temporary files.
func TestOrphans(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef"
	started := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	cache, refresh := t.TempDir(), t.TempDir()
	kept := map[string]time.Duration{ // file → age at nginx's start
		cache + "/f/de/" + hash:                       time.Hour,
		cache + "/f/de/" + hash + ".0000000012":       -time.Second,
		cache + "/f/de/" + hash + ".0000000013":       50 * time.Millisecond, // within clockError
		cache + "/f/de/" + hash + ".12":               time.Hour,
		cache + "/f/de/" + hash + ".0000000012.1":     time.Hour,
		cache + "/f/de/mine.0000000012":               time.Hour,
		cache + "/f/de/0/" + hash + ".0000000012":     time.Hour,
		cache + "/other/" + hash + ".0000000012":      time.Hour,
		cache + "/f/de/a-folder/" + hash + ".0000001": time.Hour,
		refresh + "/" + hash:                          time.Hour,
	}
	orphans := map[string]time.Duration{
		cache + "/f/de/" + hash + ".0000000001": time.Second,
		cache + "/f/de/" + hash + ".4294967295": 1000 * time.Hour,
		cache + "/0/01/" + hash + ".0000000002": time.Hour,
		refresh + "/" + hash + ".0000000003":    time.Hour,
		cache + "/f/" + hash + ".0000000004":    time.Hour,
		cache + "/" + hash + ".0000000005":      time.Hour,
	}
	for _, files := range []map[string]time.Duration{kept, orphans} {
		for path, age := range files {
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			must(t, os.Chtimes(path, time.Time{}, started.Add(-age)))
		}
	}
	must(t, os.Symlink(cache+"/f/de/"+hash, cache+"/f/de/"+hash+".0000000099"))
	kept[cache+"/f/de/"+hash+".0000000099"] = 0
	counted, usable := 0, false
	o := Orphans{
		Store: "disk1", Folders: []string{cache, refresh, cache + "/none"}, Log: slog.New(slog.DiscardHandler),
		IsUsable: func() bool { return usable }, Removed: func() { counted++ },
	}
	if removed, err := o.Remove(t.Context(), started); !errors.Is(err, errFailed) || removed > 0 {
		t.Errorf("of a disk that has failed, %d files were removed: %v", removed, err)
	}
	usable = true
	removed, err := o.Remove(t.Context(), started)
	must(t, err)
	if removed != len(orphans) || counted != removed {
		t.Errorf("%d were removed and %d counted, want %d", removed, counted, len(orphans))
	}
	var left, want []string
	for _, folder := range []string{cache, refresh} {
		must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				left = append(left, path)
			}
			return err
		}))
	}
	for path := range kept {
		want = append(want, path)
	}
	slices.Sort(left)
	slices.Sort(want)
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("files that are left (-want +got)\n%s", diff)
	}
}
