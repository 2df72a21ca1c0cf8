package cel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/await"
)

// texts returns n different texts with the given number of bytes. All of them start with the text begin.
func texts(n, bytes int, begin string) []string {
	list := make([]string, n)
	for i := range n {
		text := fmt.Sprintf("%s%d", begin, i)
		list[i] = text + strings.Repeat("x", bytes-len(text))
	}
	return list
}

const url = "https://www.example.com/"

// TestPurgesAreBounded checks that the API server accepts a CachePurge of any size within the limits. A larger
// CachePurge must be refused with a message that says what to do. The cost limit of CEL rules must not be the reason.
func TestPurgesAreBounded(t *testing.T) {
	t.Parallel()
	c := apiserver.Client(t, apiserver.Shared(t))
	type spec = v1alpha1.CachePurgeSpec
	const tooMany = "names more than 262144 bytes of URLs, prefixes, hosts and tags: create several CachePurges"
	for name, tt := range map[string]struct {
		spec spec
		want string // "": it is accepted
	}{
		"a thousand URLs": {spec{URLs: texts(1000, 262, url)}, ""},
		"long URLs":       {spec{URLs: texts(128, 2048, url)}, ""},
		"long prefixes":   {spec{Prefixes: texts(128, 2048, url)}, ""},
		"long hosts":      {spec{Hosts: texts(1000, 253, "h")}, ""},
		"long tags":       {spec{Tags: texts(1000, 256, "t")}, ""},
		"a quarter of each": {spec{
			URLs: texts(32, 2048, url), Prefixes: texts(32, 2048, url), Hosts: texts(256, 250, "h"),
			Tags: texts(256, 256, "t"),
		}, ""},
		"URLs that CEL is slow for": {spec{URLs: texts(1000, 1035, url)}, tooMany},
		"the longest URLs":          {spec{URLs: texts(1000, 2048, url)}, tooMany},
		"the longest prefixes":      {spec{Prefixes: texts(1000, 2048, url)}, tooMany},
		"all lists together": {
			spec{URLs: texts(64, 2048, url), Prefixes: texts(64, 2048, url), Tags: []string{"a"}}, tooMany,
		},
		"tags of four bytes a letter": {spec{Tags: fourBytes(1000)}, tooMany},
		"a thousand and one URLs":     {spec{URLs: texts(1001, 30, url)}, "spec.urls"},
		"a bad URL among many":        {spec{URLs: append(texts(999, 100, url), url+"#a")}, "urls: each must be http://"},
	} {
		t.Run(name, func(t *testing.T) {
			cp := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: tt.spec}
			cp.Spec.CacheNode = "edge"
			err := c.Create(context.Background(), cp, client.DryRunAll)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %.300v, want %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "cost"):
				t.Errorf("the error is about the cost of a rule: %.300v", err)
			}
		})
	}
}

// fourBytes returns n tags of 256 characters, of which 252 take four bytes each. The maximum length in the schema
// counts characters and not bytes.
func fourBytes(n int) []string {
	list := make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("%04d", i) + strings.Repeat("𝄞", 252)
	}
	return list
}

// TestStoredObjectsStayValid checks objects that were stored before a limit existed. Other fields of such an object,
// and its status, can still be changed, because the API server does not check unchanged fields again (ratcheting).
func TestStoredObjectsStayValid(t *testing.T) {
	t.Parallel()
	c := apiserver.Client(t, apiserver.Start(t))
	ctx := context.Background()
	restore := withoutLimits(t, c)
	cp := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
	cp.Spec = v1alpha1.CachePurgeSpec{CacheNode: "edge", URLs: texts(1000, 900, url)}
	cacheNode := object(t, "edge", fields{
		"cache.query": "{drop: " + names(64, 60) + "}",
		"headers":     "{request: {set: [{name: X-CacheNode-Disk, value: a}]}, response: {remove: [X-Accel-Redirect]}}",
		"purge":       "{tagHeaders: [X-Accel-Tags]}",
	})
	eventually(t, func() error { return c.Create(ctx, cp) })
	eventually(t, func() error { return c.Create(ctx, cacheNode) })
	restore()
	eventually(t, func() error { // until the restored definitions take effect
		for _, o := range []client.Object{
			&v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}, Spec: cp.Spec},
			object(t, "b", fields{"cache.query": "{drop: " + names(64, 60) + "}"}),
			object(t, "c", fields{"headers": "{request: {set: [{name: X-CacheNode-Disk, value: a}]}}"}),
			object(t, "d", fields{"purge": "{tagHeaders: [X-Accel-Tags]}"}),
		} {
			if err := c.Create(ctx, o, client.DryRunAll); !apierrors.IsInvalid(err) {
				return fmt.Errorf("a new object with the same lists: %w", err)
			}
		}
		return nil
	})
	merge := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
	patch := func(o client.Object, text string) error { return c.Patch(ctx, o, merge(text)) }
	for name, err := range map[string]error{
		"a label of the purge":     patch(cp, `{"metadata":{"labels":{"a":"b"}}}`),
		"another field":            patch(cacheNode, `{"spec":{"replicas":2}}`),
		"another field beside it":  patch(cacheNode, `{"spec":{"cache":{"minUses":2}}}`),
		"an annotation":            patch(cacheNode, `{"metadata":{"annotations":{"a":"b"}}}`),
		"the status of the purge":  c.Status().Patch(ctx, cp, merge(`{"status":{"phase":"Pending"}}`)),
		"the status of the object": c.Status().Patch(ctx, cacheNode, merge(`{"status":{"observedGeneration":1}}`)),
	} {
		if err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	// A field that is edited must respect the limit.
	if err := patch(cacheNode, `{"spec":{"cache":{"query":{"drop":`+quoted(63)+`}}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("63 long names: %v", err)
	}
	if err := patch(cacheNode, `{"spec":{"cache":{"query":{"drop":["a"]}}}}`); err != nil {
		t.Errorf("fewer names: %v", err)
	}
}

// quoted returns n long names as JSON.
func quoted(n int) string { return `["` + strings.Join(texts(n, 62, "n"), `","`) + `"]` }

// withoutLimits removes some limits and rules from the definitions, as if they came from an older version. These are
// the limits on the total size of lists, and the rules on the names of headers. It returns a function that restores the
// definitions.
func withoutLimits(t *testing.T, c client.Client) (restore func()) {
	t.Helper()
	if err := apiextensionsv1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	var restores []func()
	for _, kind := range []string{"cachenodes", "cachepurges"} {
		d := &apiextensionsv1.CustomResourceDefinition{}
		key := client.ObjectKey{Name: kind + ".cachenode.io"}
		if err := c.Get(context.Background(), key, d); err != nil {
			t.Fatal(err)
		}
		whole := d.DeepCopy()
		unbound(d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if err := c.Update(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		restores = append(restores, func() {
			eventually(t, func() error {
				if err := c.Get(context.Background(), key, d); err != nil {
					return err
				}
				d.Spec = whole.Spec
				return c.Update(context.Background(), d)
			})
		})
	}
	return func() {
		for _, r := range restores {
			r()
		}
	}
}

// unbound removes rules about sums and headers' names, and raises limits of 32 items.
func unbound(s *apiextensionsv1.JSONSchemaProps) {
	rules := s.XValidations[:0]
	for _, r := range s.XValidations {
		if !strings.Contains(r.Rule, ".sum()") && !strings.Contains(r.Rule, "'x-accel-'") {
			rules = append(rules, r)
		}
	}
	s.XValidations = rules
	if s.MaxItems != nil && *s.MaxItems == 32 {
		s.MaxItems = new(int64(64))
	}
	for name, property := range s.Properties {
		unbound(&property)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		unbound(s.Items.Schema)
	}
}

// eventually waits until f returns no error. This is needed because the API server uses changed definitions only after
// a moment.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	await.Until(t, func() string {
		if err := f(); err != nil {
			return fmt.Sprintf("%.500v", err)
		}
		return ""
	})
}
