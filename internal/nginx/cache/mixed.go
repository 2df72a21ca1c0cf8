package cache

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// mixed is the location for a file for which the origin's servers send different entity tags. nginx ends a response
	// whose slices have different tags, so such a file is fetched whole. unlessMixed contains the location mixed or the
	// disk's own location.
	mixed       = "@mixed"
	unlessMixed = "$disk_or_mixed"
	// mixedVariable is 1 for a file with different entity tags. tagVariable is the strong entity tag of a slice from the
	// origin; "" for any other response. It is also "" for a response with Vary, because variants have tags of their
	// own.
	mixedVariable = "$is_mixed"
	tagVariable   = "$slice_tag"
	// fileVariable identifies a file in a server that has caches. fileInGateway identifies the same file in the gateway.
	// No host and no arguments contain a space.
	fileVariable  = "$file"
	fileInGateway = "$file_in_gateway"
	// mixedFor is how long a file with different entity tags is remembered. After that, nginx tries to fetch the file in
	// slices again.
	mixedFor = time.Hour
)

// noticesMixed returns true if the script looks at the entity tags of slices. That does not help a client whose
// response is being cut, but it helps later clients.
func (s site) noticesMixed() bool { return s.Facts.Scripts && s.hasSlices() }

// mixedMaps returns the maps for files with different entity tags.
func (m gatewayMaps) mixedMaps() conf.Block {
	if !m.noticesMixed() {
		return nil
	}
	// Both variables must have the same value for a file. So a part of the URL that is not in the key is in neither
	// variable. The gateway's own request contains only the arguments that count.
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
		name(fileVariable, m.mark()+host+" "+args+" $uri"), name(fileInGateway, m.mark()+hostInGateway+" $args $uri"),
		conf.Map(mixedVariable, unlessMixed,
			conf.D("default", conf.Literal(onDisk)), conf.Row(conf.Literal("1"), conf.Literal(mixed))),
		conf.Map(sliceInRequest+"/$status $upstream_http_etag $upstream_http_vary", tagVariable,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~^(?:first|next)/206 (?<strong_tag>"[!-~]{0,200}") $`), conf.Expression("$strong_tag"))),
	}
}
