//go:build refusal

package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// RefusedHost is a name in hosts with which, in a build for the end-to-end tests alone, a configuration comes out that
// nginx -t takes and the running master refuses.
const RefusedHost = "refused-by-the-running-master.example"

func levels(in Input) conf.Literal {
	if slices.Contains(in.Spec.Hosts, RefusedHost) {
		return "2:2"
	}
	return "1:2"
}
