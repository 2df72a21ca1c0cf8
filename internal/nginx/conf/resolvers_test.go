package conf_test

import (
	"slices"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

func TestResolvers(t *testing.T) {
	t.Parallel()
	got, err := conf.Resolvers([]string{"10.96.0.10", " fd00::1%eth0 "})
	if want := []string{"10.96.0.10", "[fd00::1]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (error %v), want %v", got, err, want)
	}
	for _, servers := range [][]string{nil, {"dns.example.com"}, {"10.0.0.1; return 200"}} {
		if _, err := conf.Resolvers(servers); err == nil {
			t.Errorf("%v: no error", servers)
		}
	}
}
