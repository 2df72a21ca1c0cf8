package cache_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
	"github.com/cachenode/cachenode-operator/test/await"
)

func expireCopy(path string) error {
	err := cachefile.Expire(path, nginxtest.Now().Add(-time.Minute))
	if errors.Is(err, cachefile.ErrVersion) || errors.Is(err, cachefile.ErrDamaged) {
		return nil // nginx does not use it either
	}
	return err
}

func removeCopy(path string) error { return cachefile.Remove(path) }

// eachCopy changes all copies of an object: on disks, in memory, and the copies that gateways keep for waiting
// requests. It repeats this until no copy is being written and there is no new copy.
func (l *differentialLab) eachCopy(t *testing.T, path string, change func(path string) error) {
	t.Helper()
	before := map[string]bool{}
	if !nginxtest.Await(await.Patience, func() bool {
		copies, written := l.look(t, path)
		isNew := false
		for file := range copies {
			if err := change(file); err != nil {
				t.Error(err)
			}
			isNew = isNew || !before[file]
			before[file] = true
		}
		return !isNew && !written
	}) {
		t.Errorf("%s is being written all the time", path)
	}
}

// unstored is how long a test waits until a response is stored. nginx may also decide not to store this response.
const unstored = time.Second

// settle waits until the disks have the given number of copies of an answer, and no copy is being written. Copies in
// memory do not count.
func (l *differentialLab) settle(t *testing.T, path, answer string, copies int) {
	t.Helper()
	nginxtest.Await(unstored, func() bool {
		answers, written := l.look(t, path)
		found := 0
		for file, a := range answers {
			if a == answer && strings.Contains(file, layout.OwnFolder+"/cache/") {
				found++
			}
		}
		return !written && found >= copies
	})
}

// look finds the files of all pods that contain an object, and returns the answer in each file. written is true if one
// of these files is being written.
func (l *differentialLab) look(t *testing.T, path string) (answers map[string]string, written bool) {
	t.Helper()
	answers = map[string]string{}
	folders := []string{layout.MemoryTierCache}
	for _, disk := range []string{"disk1", "disk2", "disk3"} {
		folders = append(folders, layout.CacheDir(disk), layout.RefreshDir(disk))
	}
	visit := func(file string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if answer, ok := holds(file, path); ok {
			answers[file] = answer
			written = written || strings.Contains(filepath.Base(file), ".")
		}
		return nil
	}
	for _, n := range l.nginx {
		for _, folder := range folders {
			if err := filepath.WalkDir(n.Root+folder, visit); err != nil {
				t.Error(err)
			}
		}
	}
	return answers, written
}

// holds returns the origin's answer in a file. ok is false if the file does not belong to the object with the given
// path.
func holds(file, path string) (answer string, ok bool) {
	opened, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer func() { _ = opened.Close() }()
	h, err := cachefile.Read(opened)
	if err != nil || !strings.Contains(h.Key+" ", "www.example.com"+path+" ") {
		return "", false
	}
	return strings.Join(h.Values(differential.AnswerHeader), ""), true
}
