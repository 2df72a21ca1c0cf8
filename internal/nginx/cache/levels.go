//go:build !refusal

package cache

import "github.com/cachenode/cachenode-operator/internal/nginx/conf"

// levels is the shape of a cache's folders. A running nginx refuses a change of it.
func levels(Input) conf.Literal { return "1:2" }
