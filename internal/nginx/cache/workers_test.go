package cache_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestWorkersAndPools checks whether workers or thread pools read with io.mode Workers. The number of workers must be
// the same in all cases. If a reload changed it, the kernel would still give connections to old workers that wait for a
// disk.
func TestWorkersAndPools(t *testing.T) {
	const (
		pools  = "thread_pool pool_disk1 threads=16 max_queue=65536;" // a quarter of a core's 64 threads, for each worker
		copies = "output_buffers 2 128k;"
	)
	data, err := os.ReadFile("testdata/workers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		more           string
		waits          bool
		sendfile       bool
		want, unwanted []string
	}{
		"workers": {"", false, false, []string{"sendfile off;", copies}, []string{"thread_pool", "aio threads"}},
		"a disk makes reads wait": {
			"", true, false, []string{"sendfile on;", pools, "aio threads=pool_$disk;"}, []string{copies},
		},
		"large objects": {"", false, true, []string{"sendfile on;"}, []string{copies, "thread_pool", "aio threads"}},
		// With copies, each slice would need buffers, and the response to a client can have thousands of slices.
		"slices are not copied": {
			"  cache: {slice: {size: 1Mi}}\n", false, false,
			[]string{"sendfile on;"},
			[]string{copies, "thread_pool", "aio threads"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			input := decode(t, append(data, tt.more...))
			input.Spec.IO.Sendfile = &tt.sendfile
			input.Facts.Waits = tt.waits
			config, err := cache.Render(input)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range append(tt.want, "worker_processes 8;") {
				if !strings.Contains(config.Text, want) {
					t.Errorf("%q is not in the configuration", want)
				}
			}
			for _, unwanted := range tt.unwanted {
				if strings.Contains(config.Text, unwanted) {
					t.Errorf("%q is in the configuration", unwanted)
				}
			}
			checkWithNginx(t, config)
		})
	}
}
