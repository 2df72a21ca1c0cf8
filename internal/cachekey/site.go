package cachekey

import (
	"fmt"
	"strings"
)

// Site is a site of a CacheNode. Sites share no objects: the keys of a site begin with the mark of the site, and no
// other keys do. The zero value is the CacheNode's own site, whose keys have no mark.
type Site struct{ name string }

// NewSite returns the site with a name, which may contain only lower-case letters, digits, "-" and ".".
func NewSite(name string) (Site, error) {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-."
	if name == "" || strings.Trim(name, allowed) != "" {
		return Site{}, fmt.Errorf("site %q: a name has only lower-case letters, digits, hyphens and dots", name)
	}
	return Site{name}, nil
}

// String returns the name; "" for the CacheNode's own site.
func (s Site) String() string { return s.name }

// Prefix returns the text with which the keys of all objects of the site begin; "" for the CacheNode's own site.
func (s Site) Prefix() string {
	if s.name == "" {
		return ""
	}
	return siteMark + s.name + " "
}
