package cache_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestUnsafe checks which requests nginx reports to the agent because they may have changed something.
func TestUnsafe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		methods v1alpha1.UnsafeMethods
		want    []string
	}{
		"by default": {"", []string{
			"http://www.example.com/POST/200?q=%20", "http://www.example.com/PUT/303", "http://www.example.com/DELETE/204",
		}},
		"ignored": {v1alpha1.UnsafeIgnore, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			in := decode(t, []byte(threeDisks))
			in.Spec.Purge.UnsafeMethods, in.Spec.Monitoring.RequestSampling = test.methods, new(int32(100))
			config, err := cache.Render(in)
			must(t, err)
			n.Configure(config.Text, "disk1", "disk2", "disk3")
			n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := 0
				for _, digit := range strings.Split(r.URL.Path, "/")[2] {
					status = 10*status + int(digit-'0')
				}
				w.WriteHeader(status)
			}))
			n.Start()
			requests := []string{
				"GET /GET/200", "HEAD /HEAD/200", "POST /POST/200?q=%20", "POST /POST/500", "POST /POST/404", "PUT /PUT/303",
				"DELETE /DELETE/204", "OPTIONS /OPTIONS/200",
			}
			for _, r := range requests {
				method, path, _ := strings.Cut(r, " ")
				request, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+path, nil)
				must(t, err)
				request.Host = "www.example.com"
				response, err := n.Client().Do(request)
				must(t, err)
				must(t, response.Body.Close())
			}
			var got []string
			becomes(t, fmt.Sprint(len(requests)), func() string { // the report that it is unsafe comes first
				got = nil
				reported := 0
				for _, line := range n.Reports() {
					if tag, text, _ := nginxlog.Split(line); tag == agentapi.TagUnsafe {
						got = append(got, text)
					} else if _, ok := nginxlog.ParseRequest(tag, text); ok {
						reported++
					}
				}
				return fmt.Sprint(reported)
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
