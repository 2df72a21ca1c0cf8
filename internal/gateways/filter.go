package gateways

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// filter adds a filter to a rule. problem says why the filter cannot be added; "" if there is no problem.
func filter(at string, f gw.HTTPRouteFilter, rule *routes.Rule) (problem string) {
	switch f.Type {
	case gw.HTTPRouteFilterRequestHeaderModifier:
		if f.RequestHeaderModifier == nil {
			return ""
		}
		rule.Headers, problem = headerChanges(at+".requestHeaderModifier", *f.RequestHeaderModifier)
		return problem
	case gw.HTTPRouteFilterRequestRedirect:
		if f.RequestRedirect == nil {
			return ""
		}
		rule.Redirect, problem = redirect(at+".requestRedirect", *f.RequestRedirect)
		return problem
	default:
		return fmt.Sprintf("%s.type: %s is not supported", at, f.Type)
	}
}

func redirect(at string, r gw.HTTPRequestRedirectFilter) (to *routes.Redirect, problem string) {
	if r.Path != nil {
		return nil, at + ".path is not supported"
	}
	to = &routes.Redirect{
		Status: ptr.Deref(r.StatusCode, 302), Scheme: ptr.Deref(r.Scheme, ""),
		Host: string(ptr.Deref(r.Hostname, "")), Port: ptr.Deref(r.Port, 0),
	}
	if to.Status != 301 && to.Status != 302 {
		return nil, fmt.Sprintf("%s.statusCode: %d is not supported: use 301 or 302", at, to.Status)
	}
	return to, ""
}

// ownHeaders are request headers that the cache or the connection needs. A route must not change them.
var ownHeaders = []string{
	"host", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "content-length", "transfer-encoding",
	"range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
}

// headerValue matches the header values that nginx sends unchanged.
var headerValue = regexp.MustCompile(`^[!-#%-~]([ -#%-~]*[!-#%-~])?$`)

func headerChanges(at string, f gw.HTTPHeaderFilter) (changes routes.HeaderChanges, problem string) {
	check := func(list string, i int, name string) string {
		lower := strings.ToLower(name)
		isOwn := strings.HasPrefix(lower, "x-cachenode-") || strings.HasPrefix(lower, "x-accel-") ||
			slices.Contains(ownHeaders, lower)
		if isOwn || !headerName.MatchString(name) {
			return fmt.Sprintf("%s.%s[%d]: header %.100q cannot be changed", at, list, i, name)
		}
		return ""
	}
	pairs := func(list string, headers []gw.HTTPHeader) (pairs []routes.Pair) {
		for i, h := range headers {
			if problem == "" {
				problem = check(list, i, string(h.Name))
			}
			if problem == "" && !headerValue.MatchString(h.Value) {
				problem = fmt.Sprintf("%s.%s[%d].value: %.100q is not supported: use printable ASCII without $ and \"",
					at, list, i, h.Value)
			}
			if length := conf.Length(conf.Literal(h.Value)); problem == "" && length > conf.MaxArgument {
				problem = fmt.Sprintf("%s.%s[%d].value: is too long: it would take %d bytes in the configuration of nginx, "+
					"and %d is the maximum", at, list, i, length, conf.MaxArgument)
			}
			pairs = append(pairs, routes.Pair{Name: string(h.Name), Value: h.Value})
		}
		return pairs
	}
	changes.Set, changes.Add = pairs("set", f.Set), pairs("add", f.Add)
	for i, name := range f.Remove {
		if problem == "" {
			problem = check("remove", i, name)
		}
		changes.Remove = append(changes.Remove, name)
	}
	return changes, problem
}
