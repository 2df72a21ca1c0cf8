package cachekey

import "strings"

// Group returns the beginning of the object's key: the key up to the host, and the first parts of the path. depth is
// the number of these parts. A key without a scheme or a host also has a group, for example the beginning of its
// path.
func (k Key) Group(depth int) string {
	path, _, _ := strings.Cut(k.text, "?")
	at := 0
	if scheme, _, ok := strings.Cut(path, "://"); ok && !strings.Contains(scheme, "/") { // a path can contain a URL
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
