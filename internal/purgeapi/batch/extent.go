package batch

import "github.com/cachenode/cachenode-operator/internal/purge"

// extent is the size of a target: the number of its items, and the bytes of their texts.
type extent struct {
	urls, prefixes, hosts, tags, bytes int
	everything                         bool
}

func extentOf(t purge.Target) extent {
	return extent{
		urls: len(t.URLs), prefixes: len(t.Prefixes), hosts: len(t.Hosts), tags: len(t.Tags), bytes: t.Text(),
		everything: t.Everything,
	}
}

func (e extent) plus(f extent) extent {
	return extent{
		urls: e.urls + f.urls, prefixes: e.prefixes + f.prefixes, hosts: e.hosts + f.hosts, tags: e.tags + f.tags,
		bytes: e.bytes + f.bytes, everything: e.everything || f.everything,
	}
}

// fits returns true if two targets can be in one CachePurge.
func (e extent) fits(f extent) bool {
	if e.everything || f.everything {
		return e.everything && f.everything // two purges of everything have the same effect as one
	}
	both := e.plus(f)
	return max(both.urls, both.prefixes, both.hosts, both.tags) <= purge.MaxItems && both.bytes <= purge.MaxText
}
