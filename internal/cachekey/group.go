package cachekey

import (
	"strings"
)

// GroupOf is the beginning of a key, up to the host and so many parts of the path. A key without a scheme or a host has
// a group too: its path alone, for instance.
func GroupOf(key string, depth int) string {
	path, _, _ := strings.Cut(key, "?")
	at := 0
	if _, rest, ok := strings.Cut(path, "://"); ok {
		at = len(path) - len(rest)
	}
	for part := 0; ; part++ {
		slash := strings.IndexByte(path[at:], '/')
		if slash < 0 {
			return path
		}
		if at += slash + 1; part == depth {
			return path[:at]
		}
	}
}
