package cachekey

import "strings"

// Group returns the beginning of the object's key: the key up to the host, and the next parts of the path, as many as
// depth says. A key without a scheme or a host has a group too, such as its path alone.
func (k Key) Group(depth int) string {
	path, _, _ := strings.Cut(k.text, "?")
	at := 0
	if scheme, _, ok := strings.Cut(path, "://"); ok && !strings.Contains(scheme, "/") { // a path can have another URL
		at = len(scheme) + len("://")
	}
	for part := 0; ; part++ {
		slash := strings.IndexByte(path[at:], '/')
		if slash < 0 {
			return k.Site.Prefix() + path
		}
		if at += slash + 1; part == depth {
			return k.Site.Prefix() + path[:at]
		}
	}
}
