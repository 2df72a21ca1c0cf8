package cache

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// mixed is the location for a file of which the origin's servers have different entity tags: nginx ends a response
	// whose slices differ in theirs, so such a file is fetched whole. unlessMixed is that location or the disk's own.
	mixed       = "@mixed"
	unlessMixed = "$disk_or_mixed"
	// mixedVariable is 1 for such a file. tagVariable is the strong entity tag of a slice from the origin; "" for any
	// other response, and for one with Vary, as variants have tags of their own.
	mixedVariable = "$is_mixed"
	tagVariable   = "$slice_tag"
	// fileVariable is what identifies a file in a server that has caches, fileInGateway is the same in the gateway. No
	// host and no arguments contain a space.
	fileVariable  = "$file"
	fileInGateway = "$file_in_gateway"
	// mixedFor is how long such a file is remembered. Then it is tried in slices again.
	mixedFor = time.Hour
)

// noticesMixed returns true if the script looks at the entity tags of slices. A client whose response is being cut is
// not helped, but those after it are.
func (s site) noticesMixed() bool { return s.Facts.Scripts && s.hasSlices() }

// mixedMaps returns the maps for such files.
func (m gatewayMaps) mixedMaps() conf.Block {
	if !m.noticesMixed() {
		return nil
	}
	// What is not in the key is not in the gateway's own request either, or is in neither name.
	host, args := conf.Expression(""), conf.Expression("$args")
	hostInGateway := host
	if m.keeps(v1alpha1.KeyHost) {
		host, hostInGateway = "$host", "$http_x_forwarded_host"
	}
	if m.passedURI() != "" {
		args = countedArgs
	}
	name := func(variable, value conf.Expression) conf.Directive {
		return conf.Map("", variable, conf.D("default", value))
	}
	return conf.Block{
		name(fileVariable, host+" "+args+" $uri"), name(fileInGateway, hostInGateway+" $args $uri"),
		conf.Map(mixedVariable, unlessMixed,
			conf.D("default", conf.Literal(onDisk)), conf.Row(conf.Literal("1"), conf.Literal(mixed))),
		conf.Map(sliceInRequest+"/$status $upstream_http_etag $upstream_http_vary", tagVariable,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~^(?:first|next)/206 (?<strong_tag>"[!-~]{0,200}") $`), conf.Expression("$strong_tag"))),
	}
}
