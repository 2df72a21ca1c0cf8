package cel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// aRoute is a target of a CachePolicy.
const aRoute = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}"

// TestPolicies checks the rules of CachePolicies on the API server, and in the plugin.
func TestPolicies(t *testing.T) {
	t.Parallel()
	c := apiserver.Client(t, apiserver.Shared(t))
	rules := func(text string) string { return "{targetRefs: [" + aRoute + "], " + text + "}" }
	targets := func(list ...string) string { return "{targetRefs: [" + strings.Join(list, ", ") + "]}" }
	ttl := func(entries ...string) string { return rules("ttl: [" + strings.Join(entries, ", ") + "]") }
	var entries []string
	for i := range 8 {
		status := make([]string, 16)
		for j := range status {
			status[j] = fmt.Sprint(200 + 16*i + j)
		}
		entries = append(entries, "{status: ["+strings.Join(status, ", ")+"], default: 8760h, min: 1s, max: 8760h}")
	}
	const gateway = "{group: gateway.networking.k8s.io, kind: Gateway, name: shop}"
	for name, tt := range map[string]struct {
		spec, want string // want is a part of the error; "": it is accepted
	}{
		"no target":     {"{}", "targetRefs"},
		"an empty list": {targets(), "targetRefs"},
		"another kind":  {targets("{group: '', kind: Service, name: shop}"), "kind must be Gateway or HTTPRoute"},
		"another group": {targets("{group: cachenode.io, kind: Gateway, name: a}"), "group must be gateway."},
		"twice":         {targets(aRoute, gateway, aRoute), "names an object twice"},
		"a section of it, and all of it": {
			targets(aRoute, gateway, strings.Replace(aRoute, "}", ", sectionName: a}", 1)), "",
		},
		"all rules": {rules("query: {keep: [id]}, bypass: {cookies: [session]}, " +
			"ignore: [NoStore, Private, NoCache, SetCookie], " +
			"ttl: [{status: [200], default: 1h, min: 1s, max: 2h}, {status: [404], force: 0s}], " +
			"staleWhileRevalidate: 0s, staleIfError: 8760h"), ""},
		"as many as possible":     {ttl(entries...), ""},
		"both lists":              {rules("query: {drop: [a], keep: [b]}"), "give either drop or keep"},
		"a status in two":         {ttl("{status: [200], force: 1s}", "{status: [404, 200], force: 2s}"), "in two entries"},
		"a status that is none":   {ttl("{status: [600], force: 1s}"), "ttl[0].status[0]"},
		"an informational one":    {ttl("{status: [101], force: 1s}"), "ttl[0].status[0]"},
		"no lifetime":             {ttl("{status: [200]}"), "give either force, or some of default, min and max"},
		"force and more":          {ttl("{status: [200], force: 1s, max: 2s}"), "give either force, or some of"},
		"min above max":           {ttl("{status: [200], min: 2m, max: 119s}"), "must not be more than max"},
		"no duration":             {ttl("{status: [200], force: 1 hour}"), "ttl[0].force"},
		"nothing else is ignored": {rules("ignore: [Expires]"), "ignore[0]"},
		"stale for ever":          {rules("staleIfError: 8761h"), "must be at most 8760h"},
		"a field of a CacheNode":  {rules("slice: {size: 1Mi}"), "slice"},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("{apiVersion: cachenode.io/v1alpha1, kind: CachePolicy, "+
				"metadata: {name: shop, namespace: default}, spec: %s}", tt.spec)
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
				t.Fatal(err)
			}
			whole(u.Object)
			strict := client.WithFieldValidation(c, "Strict")
			server := strict.Create(context.Background(), u, client.DryRunAll)
			_, errs, err := schema.DecodePolicy([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			offline := errs.ToAggregate()
			for who, err := range map[string]error{"the API server": server, "the plugin": offline} {
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("%s: error %.400v, want %q", who, err, tt.want)
				}
			}
			if server != nil && !apierrors.IsInvalid(server) && !apierrors.IsBadRequest(server) {
				t.Errorf("the API server refuses it for another reason: %v", server)
			}
		})
	}
}
