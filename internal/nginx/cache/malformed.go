package cache

import "github.com/cachenode/cachenode-operator/internal/nginx/conf"

// malformedVariable is not empty for a request that every server answers with 400.
const malformedVariable = "$is_malformed"

// malformedMap returns the map for malformedVariable.
//
// A control character in the decoded path could end a header, a log line, or the line with the key in a cache file. A
// request line of the form "GET http://host?query" has no path. nginx passes such a request on with a path, so the
// key and the origin would have different paths.
func malformedMap() conf.Directive {
	return conf.Map("$request_uri$uri", malformedVariable,
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression(`~^[^/]|[\x00-\x1f\x7f]`), conf.Literal("1")))
}

// refusesMalformed makes a server answer malformed requests with 400. It must come first in the server.
func refusesMalformed() conf.Directive {
	return ifSet(malformedVariable,
		conf.D("return", conf.Literal("400")))
}
