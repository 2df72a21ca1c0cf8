package cachekey_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

func TestFile(t *testing.T) {
	t.Parallel()
	for i := range 1000 {
		key := fmt.Sprintf("http://www.example.com/%d", i)
		path := cachekey.OnDisk("disk1", key)
		f, ok := cachekey.ParseFile(filepath.Base(path))
		if want := strings.TrimPrefix(path, layout.CacheDir("disk1")+"/"); !ok || f.Path() != want {
			t.Fatalf("%s: the path is %s, want %s", key, f.Path(), want)
		}
	}
	for _, name := range []string{
		"", "x", "0123456789abcdef0123456789abcdef.0000000001", "0123456789ABCDEF0123456789abcdef",
		"g123456789abcdef0123456789abcdef",
	} {
		if f, ok := cachekey.ParseFile(name); ok {
			t.Errorf("%q is read as %s", name, f)
		}
	}
}

func TestIsTemporary(t *testing.T) {
	t.Parallel()
	const file = "0123456789abcdef0123456789abcdef"
	for name, want := range map[string]bool{
		file + ".0000000001": true, file + ".9876543210": true,
		file: false, file + ".": false, file + ".000000001": false, file + ".00000000001": false, file + ".000000000a": false,
		file + ".0000000001.1": false, file[1:] + ".0000000001": false, "A" + file[1:] + ".0000000001": false, "": false,
	} {
		if got := cachekey.IsTemporary(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
