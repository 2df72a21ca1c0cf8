package effective

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestOpenFiles checks that nginx never asks for more open files than its container allows, nor for connections that
// these do not suffice for.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want        int32
		mode        v1alpha1.IOMode
		limit       int64
		connections int32
		files       int64
		text        string
	}{
		"not known":            {16384, "", 0, 16384, 65536, ""},
		"as most runtimes do":  {16384, "", 1 << 20, 16384, 1 << 20, ""},
		"enough":               {16384, "", 33024, 16384, 33024, ""},
		"one too few":          {16384, "", 33023, 16383, 33023, "takes 16383 connections instead of 16384"},
		"an old Docker":        {16384, "", 4096, 1920, 4096, "edge-0 may have 4096 files open"},
		"shared among workers": {16384, v1alpha1.IOWorkers, 4096, 1920, 4096, "instead of 4096; raise"},
		"hardly any":           {16384, "", 10, 64, 10, "takes 64 connections"},
		"few connections":      {256, "", 4096, 256, 4096, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.CacheNodeSpec{IO: v1alpha1.IO{Mode: tt.mode}}
			spec.Listen.MaxConnections = new(tt.want)
			connections, files := OpenFiles(spec, tt.limit)
			if connections != tt.connections || files != tt.files {
				t.Errorf("%d connections and %d files, want %d and %d", connections, files, tt.connections, tt.files)
			}
			if text := FewFiles(spec, "edge-0", tt.limit); !strings.Contains(text, tt.text) || (text == "") != (tt.text == "") {
				t.Errorf("got %q, want it to have %q", text, tt.text)
			}
		})
	}
}
