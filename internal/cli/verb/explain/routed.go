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
// and backend that may answer. Any other argument is a key, which has one place. The notes say what has no object. It
// returns an error if nothing answers the URL.
func placesOf(
	cacheNode *v1alpha1.CacheNode, table routes.Table, method, argument string,
) (places []place, notes []string, err error) {
	u, isURL := requestOf(argument)
	own := sites.Own(cacheNode.Spec)
	if !isURL {
		hasScheme := strings.HasPrefix(argument, "http://") || strings.HasPrefix(argument, "https://")
		if hasScheme || argument == "" {
			return nil, nil, fmt.Errorf("%q is no URL and no key", argument)
		}
		if !strings.Contains(argument, "http://") && !strings.Contains(argument, "https://") {
			notes = append(notes, fmt.Sprintf("%q is taken as a key: a URL begins with http:// or https://", argument))
		}
		return []place{placeOf(cacheNode, method, argument)}, notes, nil
	}
	if len(table.Listeners) == 0 && !own.IsEmpty() {
		return []place{placeOf(cacheNode, method, argument)}, nil, nil
	}
	if !own.IsEmpty() && refusedHost(own.Hosts, argument) == "" {
		places = append(places, placeOf(cacheNode, method, argument))
	}
	for _, r := range routedObjects(cacheNode, table, method, u, argument) {
		if r.key == "" {
			notes = append(notes, r.route+", and has no object")
			continue
		}
		p := locate(cacheNode, r.key)
		p.route = r.route
		places = append(places, p)
	}
	if len(places) == 0 {
		return nil, notes, fmt.Errorf("no route of CacheNode %s sends %s %s to a backend: "+
			"kubectl cachenode routes %s lists the routes", cacheNode.Name, method, argument, cacheNode.Name)
	}
	return places, notes, nil
}

// routed is an object that a route makes of a URL. If the route answers without a backend, the key is "", and route
// says how it answers.
type routed struct{ route, key string }

// routedObjects returns the objects that routes make of a URL, each once, and the routes that make none. A request may
// have headers that select other rules; they are not known here. It is pure.
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
		describe := func(by string) string {
			return fmt.Sprintf("%s, rule %d, %s, of Gateway %s", route.ID(), route.InSpec(a.Rule), by, listener.Gateway)
		}
		choices := route.Choices(a.Rule, a.Policy)
		for i, action := range choices {
			by := describe("backend " + route.Rules[a.Rule].Backends[i].Name)
			site, err := cachekey.NewSite(action.Site)
			if err != nil || action.ID == "" {
				objects = append(objects, routed{route: by + " answers the URL with an error"})
				continue
			}
			key := cachekey.Of(sites.OfRoutes(cacheNode.Spec, table.Rules(a.Policy)).Cache, sent)
			key.Site = site
			objects = append(objects, routed{by, key.Object()})
		}
		switch {
		case len(choices) > 0:
		case route.Rules[a.Rule].Redirect != nil:
			objects = append(objects, routed{route: describe("a redirect") + " answers the URL"})
		default:
			objects = append(objects, routed{route: describe("without a backend") + " answers the URL"})
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
