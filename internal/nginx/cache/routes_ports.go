package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// ofPorts returns the maps whose values depend on the port at which a request arrived. Other servers of the CacheNode
// get these values in headers.
func (r routed) ofPorts() conf.Block {
	route := conf.Block{conf.D("default", conf.Expression("$http_x_cachenode_route"))}
	host := conf.Block{conf.D("default", conf.Expression("$http_host"))}
	unusual, port := conf.Block{conf.D("default", conf.Literal(""))}, conf.Block{conf.D("default", conf.Literal(""))}
	spellings := conf.Block{}
	for _, l := range r.listeners() {
		suffix, usual := "", conf.Literal(`~^(?:\[[^]]*\]|[^:]+)\z`)
		if l.Port != l.defaultPort() {
			suffix = fmt.Sprintf(":%d", l.Port)
			usual = conf.Literal(fmt.Sprintf(`~:%d\z`, l.Port))
		}
		at := conf.Int(l.PodPort)
		spelling := conf.Expression(fmt.Sprintf("$is_unusual_host_%d", l.PodPort))
		spellings = append(spellings, conf.Map("$http_host", spelling,
			conf.D("default", conf.Literal("1")), conf.Row(usual, conf.Literal(""))))
		route = append(route, conf.Row(at, routemap.Rule))
		host = append(host, conf.Row(at, conf.Expression("$host"+suffix)))
		unusual = append(unusual, conf.Row(at, spelling))
		port = append(port, conf.Row(at, conf.Literal(suffix)))
	}
	const normal = "$host" + routesSuffix
	return append(spellings,
		conf.Map("$server_port", routeVariable, route...), conf.Map("$server_port", normal, host...),
		conf.Map("$server_port", unusualHost, unusual...), conf.Map("$server_port", portOfListener, port...),
		conf.Map(unusualHost, sentHost,
			conf.D("default", conf.Expression(normal)), conf.Row(conf.Literal("1"), conf.Expression("$http_host"))))
}

// podListener is a port of the pods at which requests for listeners of a Gateway arrive.
type podListener struct{ routes.Listener }

func (l podListener) defaultPort() int32 {
	if l.Certificate != "" {
		return 443
	}
	return 80
}

// listeners returns one listener for each port of the pods.
func (r routed) listeners() (list []podListener) {
	for _, l := range r.Routes.Listeners {
		if !slices.ContainsFunc(list, func(o podListener) bool { return o.PodPort == l.PodPort }) {
			list = append(list, podListener{l})
		}
	}
	return list
}

// listen returns the directives that define on which ports the server for clients listens.
func (r routed) listen() (block conf.Block) {
	for _, l := range r.listeners() {
		args := []conf.Argument{conf.Int(l.PodPort), conf.Literal("default_server")}
		if ptr.Deref(r.Spec.Listen.ReusePort, true) {
			args = append(args, conf.Literal("reuseport"))
		}
		if r.addressSource() == v1alpha1.AddressProxyProtocol {
			args = append(args, conf.Literal("proxy_protocol"))
		}
		if l.Certificate != "" {
			args = append(args, conf.Literal("ssl"))
		}
		block = append(block, conf.D("listen", args...))
	}
	return append(block, conf.D("server_name", conf.Literal("_")))
}
