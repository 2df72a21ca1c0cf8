package cache

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// mixed is the location for a file of which the origin's servers have different entity tags: nginx ends a response
	// whose slices differ in theirs, so such a file is fetched whole. unlessMixed is that location or the disk's own.
	mixed       = "@mixed"
	unlessMixed = "$disk_or_mixed"
	// mixedVariable is 1 for such a file. tagVariable is the strong entity tag of a slice from the origin; "" for any
	// other response.
	mixedVariable = "$is_mixed"
	tagVariable   = "$slice_tag"
	// mixedFor is how long such a file is remembered. Then it is tried in slices again.
	mixedFor = time.Hour
)

// noticesMixed is true if the script looks at the entity tags of slices. A client whose response is being cut is not
// helped, but those after it are.
func (r renderer) noticesMixed() bool { return r.Facts.Scripts && r.hasSlices() }

// mixedMaps are the maps for such files.
func (r renderer) mixedMaps() conf.Block {
	if !r.noticesMixed() {
		return nil
	}
	return conf.Block{
		conf.B("map", []conf.Argument{conf.Expression(mixedVariable), conf.Expression(unlessMixed)},
			conf.D("default", conf.Literal(onDisk)), conf.Row(conf.Literal("1"), conf.Literal(mixed))),
		conf.B("map",
			[]conf.Argument{conf.Expression(sliceInRequest + "/$status $upstream_http_etag"), conf.Expression(tagVariable)},
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~^(?:first|next)/206 (?<strong_tag>"[!-~]{0,200}")$`), conf.Expression("$strong_tag"))),
	}
}
