package explain

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/served"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// placesOf returns the places of the objects at a URL: the object of the CacheNode's own site, and one for each route
// and backend that may answer. Any other argument is a key, which has one place. It returns an error if nothing answers
// the URL.
func placesOf(cacheNode *v1alpha1.CacheNode, table routes.Table, method, argument string) (places []place, err error) {
	u, isURL := requestOf(argument)
	own := sites.Own(cacheNode.Spec)
	if !isURL || len(table.Listeners) == 0 && !own.IsEmpty() {
		return []place{placeOf(cacheNode, method, argument)}, nil
	}
	if !own.IsEmpty() && refusedHost(own.Hosts, argument) == "" {
		places = append(places, placeOf(cacheNode, method, argument))
	}
	for _, r := range routedObjects(cacheNode, table, method, u, argument) {
		p := locate(cacheNode, r.key)
		p.route = r.route
		places = append(places, p)
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("no route of CacheNode %s sends %s %s to a backend: "+
			"kubectl cachenode routes %s lists the routes", cacheNode.Name, method, argument, cacheNode.Name)
	}
	return places, nil
}

// routed is an object that a route makes of a URL.
type routed struct{ route, key string }

// routedObjects returns the objects that routes make of a URL, each once. A request may have headers that select other
// rules; they are not known here. It is pure.
func routedObjects(
	cacheNode *v1alpha1.CacheNode, table routes.Table, method string, u *url.URL, text string,
) (objects []routed) {
	port, ok := portOf(u)
	if !ok {
		return nil
	}
	request := routes.Request{
		Host: strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), Method: method, Path: routes.NormalPath(u.Path),
		Query: u.RawQuery, Headers: map[string]string{},
	}
	sent := cachekey.ForURL(u, text)
	if port != standardPort(u) {
		sent.Port = ":" + strconv.Itoa(int(port))
	}
	for _, a := range table.Answers(port, request) {
		route, listener := table.Routes[a.Route], table.Listeners[a.Listener]
		for i, action := range route.Choices(a.Rule) {
			site, err := cachekey.NewSite(action.Site)
			if err != nil || action.ID == "" {
				continue
			}
			key := cachekey.Of(sites.OfRoutes(cacheNode.Spec).Cache, sent)
			key.Site = site
			objects = append(objects, routed{
				route: fmt.Sprintf("%s, rule %d, backend %s, of Gateway %s",
					route.ID(), route.InSpec(a.Rule), route.Rules[a.Rule].Backends[i].Name, listener.Gateway),
				key: key.Object(),
			})
		}
	}
	return objects
}

func standardPort(u *url.URL) int32 { return map[string]int32{"http": 80, "https": 443}[u.Scheme] }

// portOf returns the port of a URL.
func portOf(u *url.URL) (port int32, ok bool) {
	if u.Port() == "" {
		return standardPort(u), true
	}
	n, err := strconv.ParseInt(u.Port(), 10, 32)
	return int32(n), err == nil
}

// tableOf returns the routes of a CacheNode in the cluster.
func tableOf(ctx context.Context, cluster *connect.Cluster, cacheNode *v1alpha1.CacheNode) (routes.Table, error) {
	if cacheNode.Spec.Gateways == nil {
		return routes.Table{}, nil
	}
	return served.Routes(ctx, cluster, cacheNode.Name)
}
