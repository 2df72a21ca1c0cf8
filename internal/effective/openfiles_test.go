package effective

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestOpenFiles checks that nginx never asks for more open files than its container allows. It also checks that these
// files are enough for all connections.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want        int32
		mode        v1alpha1.IOMode
		tier        bool
		limit       int64
		connections int32
		files       int64
		text        string
	}{
		"not known":            {16384, "", false, 0, 16384, 65536, ""},
		"as most runtimes do":  {16384, "", false, 1 << 20, 16384, 1 << 20, ""},
		"enough":               {16384, "", false, 33024, 16384, 33024, ""},
		"one too few":          {16384, "", false, 33023, 16383, 33023, "takes 16383 connections instead of 16384"},
		"an old Docker":        {16384, "", false, 4096, 1920, 4096, "edge-0 may have 4096 files open"},
		"shared among workers": {16384, v1alpha1.IOWorkers, false, 4096, 1920, 4096, "instead of 4096; raise"},
		"hardly any":           {16384, "", false, 10, 64, 10, "takes 64 connections"},
		"few connections":      {256, "", false, 4096, 256, 4096, ""},
		"with a memory tier":   {16384, "", true, 37120, 16384, 37120, ""},
		"and one too few":      {16384, "", true, 37119, 16383, 37119, "of the container runtime to 37120"},
		"a tier in few files":  {16384, "", true, 4096, 1664, 4096, "takes 1664 connections"},
		"a tier, not known":    {256, "", true, 0, 256, 5120, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.CacheNodeSpec{IO: v1alpha1.IO{Mode: tt.mode}}
			spec.Listen.MaxConnections = new(tt.want)
			spec.MemoryTier.Enabled, spec.MemoryTier.Size = &tt.tier, resource.NewQuantity(1<<30, resource.BinarySI)
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
