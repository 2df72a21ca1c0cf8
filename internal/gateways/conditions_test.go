package gateways_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestConditionsAreBounded checks that no team can make the operator write more maps than the limit by paths that keys
// of maps cannot tell apart. The expected number of routes shows that only the newest routes are refused.
func TestConditionsAreBounded(t *testing.T) {
	t.Parallel()
	const mostOfOne, mostOfAll = 1024, 4096
	plain := func(i int) string { return fmt.Sprintf("h%d.example.com", i) }
	equal := equalRemainders(16 * 128)
	for name, tt := range map[string]struct {
		namespaces, perNamespace, hosts int
		host                            func(i int) string
		path                            func(namespace, i int) string
		want, most                      int
	}{
		"equal remainders under other parents": {1, 16, 16, plain, func(_, i int) string { return equal[i] }, 1, mostOfOne},
		"other letters of another namespace": {2, 8, 8, plain, func(namespace, i int) string {
			return fmt.Sprintf("/%d/%s", i, []string{"Ab", "aB"}[namespace])
		}, 9, mostOfOne},
		"letters of many namespaces": {8, 8, 4, plain, func(namespace, i int) string {
			return fmt.Sprintf("/%d/%s", i, []string{"Abcd", "aBcd", "abCd", "abcD", "ABcd", "AbCd", "AbcD", "aBCd"}[namespace])
		}, 16, mostOfAll},
		"deep": {1, 16, 4, plain, func(_, i int) string { return fmt.Sprintf("/a/b/c/d/e/f/g/h%d/i", i) }, 2, mostOfOne},
		"wildcards": {
			1, 16, 8, func(i int) string { return "*." + strings.Repeat("x.", i) + "example.com" },
			func(_, i int) string { return fmt.Sprintf("/p%d", i) }, 1, mostOfOne,
		},
	} {
		s := crowd(t, tt.namespaces*tt.perNamespace, func(i int, r *gw.HTTPRoute) {
			namespace := i % tt.namespaces
			r.Namespace = fmt.Sprint("team-", namespace)
			for host := range tt.hosts {
				r.Spec.Hostnames = append(r.Spec.Hostnames, gw.Hostname(tt.host(host)))
			}
			r.Spec.Rules = make([]gw.HTTPRouteRule, 16)
			for j := range 128 {
				matches := &r.Spec.Rules[j%16].Matches
				*matches = append(*matches, at(tt.path(namespace, i/tt.namespaces*128+j)))
			}
		})
		got := gateways.Decide(s).Table
		if n := mapsOf(t, got); n > tt.most || len(got.Routes) != tt.want {
			t.Errorf("%s: %d routes have %d maps; want %d routes, and at most %d maps",
				name, len(got.Routes), n, tt.want, tt.most)
		}
	}
}

// mapsOf returns the number of maps of nginx with candidates of a table.
func mapsOf(t *testing.T, table routes.Table) int {
	t.Helper()
	text, err := conf.Write(routemap.Maps(table, func(routes.Candidate) conf.Argument { return conf.Literal("") }))
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]bool{}
	for _, name := range regexp.MustCompile(`\$route_\d+`).FindAllString(text, -1) {
		variables[name] = true
	}
	return len(variables)
}

// crowd returns a state with many routes of a Gateway.
func crowd(t *testing.T, number int, edit func(i int, r *gw.HTTPRoute)) gateways.State {
	t.Helper()
	s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, "+
		"allowedRoutes: {namespaces: {from: All}}}]}")
	s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 1000, 1000
	for i := range number {
		r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("r%03d", i), UID: types.UID(fmt.Sprintf("%08d", i)),
			CreationTimestamp: metav1.Unix(int64(i), 0),
		}}
		r.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
		edit(i, &r)
		s.Namespaces[r.Namespace] = gateways.Namespace{UID: types.UID(r.Namespace)}
		s.HTTPRoutes = append(s.HTTPRoutes, r)
	}
	return s
}

// equalRemainders returns paths of the same length whose hashes have the same remainder in nginx. No two have the same
// first segment.
func equalRemainders(number int) (paths []string) {
	const hsize = 10007
	for parent := 0; len(paths) < number; parent++ {
		for child := range 100_000 {
			path := fmt.Sprintf("/p%04d/%05d", parent, child)
			if routemap.Hash(path)%hsize == 0 {
				paths = append(paths, path)
				break
			}
		}
	}
	return paths
}
