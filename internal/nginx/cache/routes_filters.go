package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// filters is the name of the upstream that leads to the server filters. This server changes the headers of a request
	// and passes the request on to the backend.
	filters = "filters"
	// filteredRoute is the action that the gateway tells the server filters; "" for a request to a backend.
	filteredRoute = "$filtered_route"
	// filterLocation is the location of the server filters that changes the headers for the action of a request.
	filterLocation = "$filter"
	filterPrefix   = "@filter_"
	// disconnect is the location for requests that got no response. It closes the connection to the gateway, so that the
	// gateway decides whether to send the request again.
	disconnect = "@disconnect"
)

// filter is an action that changes headers, with the name of the upstream of its backend.
type filter struct {
	action   routes.Action
	upstream string
}

// location returns the name of the location that changes the headers. Actions that differ in something else share a
// location.
func (f filter) location() string { return filterPrefix + f.action.FilterID() }

// filters returns the server filters, with a location for each action that changes headers. proxy_set_header takes no
// variable as the name of a header, so each action has a list of its own. The gateway has no such lists: it would have
// to repeat them in each of its locations.
func (r routed) filters(list []filter) conf.Block {
	locations := conf.Block{conf.D("default", conf.Literal(""))}
	for _, f := range list {
		locations = append(locations, conf.Row(conf.Literal(f.action.ID), conf.Literal(f.location())))
	}
	told := conf.Map(routeBackend, filteredRoute, conf.D("default", conf.Literal("")),
		conf.Row(conf.Literal(filters), conf.Expression(routeVariable)))
	if len(list) == 0 {
		return conf.Block{told}
	}
	entry := entry{filters, layout.FiltersSocket}
	server := conf.Block{
		conf.D("listen", entry.address()), refusesMalformed(),
		conf.D("large_client_header_buffers", conf.Literal("4"), conf.Literal(ownHeaders)),
		conf.D("keepalive_requests", conf.Literal("100000")),
		conf.D("proxy_http_version", conf.Literal("1.1")),
	}
	server = slices.Concat(server, largeBuffers(), r.backend(filters).reachOrigin(),
		passed(append(accelHeaders(), conf.Literal("Server"))), conf.Block{
			conf.D("proxy_ignore_headers", accelHeaders()...),
			// The names of two equal headers with 256 characters must fit into a bucket.
			conf.D("proxy_headers_hash_max_size", conf.Literal("2048")),
			conf.D("proxy_headers_hash_bucket_size", conf.Literal("1024")),
			conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Literal(disconnect)),
			location(disconnect, conf.D("return", conf.Literal("444"))),
			dispatch(conf.Expression(filterLocation), ifEqual(filterLocation, "", conf.D("return", conf.Literal("444")))),
		})
	has := map[string]bool{}
	for _, f := range list {
		if !has[f.location()] {
			server = append(server, f.apply())
		}
		has[f.location()] = true
	}
	socket := conf.D("server", entry.address())
	again := conf.Block{}
	for range timesAgain { // see againUpstream
		again = append(again, conf.D("server", entry.address(), conf.Literal("max_fails=0")))
	}
	keepalive := r.backend(filters).originKeepalive()
	return conf.Block{
		told, conf.Map("$http_x_cachenode_route", filterLocation, locations...),
		conf.B("upstream", conf.Literals(filters), append(conf.Block{socket}, keepalive...)...),
		conf.B("upstream", conf.Literals(r.backend(filters).againName()), append(again, keepalive...)...),
		conf.B("server", nil, server...),
	}
}

// apply returns the location that changes headers. A header to which a value is added occurs twice in the request.
func (f filter) apply() conf.Directive {
	block := conf.Block{
		setHeader("Host", conf.Expression("$http_host")), setHeader("Connection", conf.Literal("")),
		setHeader(routeHeader, conf.Literal("")),
	}
	for _, h := range f.action.Headers.Set {
		block = append(block, setHeader(h.Name, conf.Literal(h.Value)))
	}
	for _, h := range f.action.Headers.Add {
		sent := "$http_" + strings.ReplaceAll(strings.ToLower(h.Name), "-", "_")
		block = append(block, setHeader(h.Name, conf.Expression(sent)), setHeader(h.Name, conf.Literal(h.Value)))
	}
	for _, name := range f.action.Headers.Remove {
		block = append(block, setHeader(name, conf.Literal("")))
	}
	return location(f.location(), append(block, conf.D("proxy_pass", conf.Expression("http://"+f.upstream)))...)
}
