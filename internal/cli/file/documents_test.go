package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"
)

// TestLists checks that the objects in a List are read as if they were documents of their own, as kubectl apply reads
// them.
func TestLists(t *testing.T) {
	t.Parallel()
	const samples = "../../../config/samples/"
	paths := []string{samples + "gateways.yaml", samples + "teams.yaml"}
	want, err := ReadAll(paths, "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var item map[string]any
			if err := yaml.Unmarshal([]byte(document), &item); err != nil {
				t.Fatal(err)
			}
			items = append(items, item)
		}
	}
	inner := map[string]any{"apiVersion": "v1", "kind": "List", "items": items[1:]}
	list["items"] = []any{items[0], inner}
	text, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll([]string{path}, "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range want.Files {
		want.Files[id] = path
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Objects{})); diff != "" || len(got.HTTPRoutes) == 0 {
		t.Errorf("%d routes; (-want +got)\n%s", len(got.HTTPRoutes), diff)
	}
}

// TestBadDocuments checks that nothing in a file is left out silently, and that each error names the file.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	const (
		node = "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\n" +
			"spec:\n  disks: [{name: disk1, size: 1Gi}]\n  gateways: {}\n"
		list  = "apiVersion: v1\nkind: List\nitems: "
		route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: shop}\nspec: {}\n"
	)
	for name, tt := range map[string]struct{ text, err, ignored string }{
		"comments only":      {"# nothing\n---\n" + node, "", ""},
		"no kind":            {"apiVersion: v1\n---\n" + node, "-: an object without apiVersion or kind", ""},
		"no apiVersion":      {"kind: Gateway\n---\n" + node, "-: an object without apiVersion or kind", ""},
		"no YAML":            {"{", "-: error converting YAML to JSON", ""},
		"a List of no items": {list + "1\n", "-: items of a List: ", ""},
		"a key twice in it":  {list + "[{a: 1, a: 2}]\n", `-: a List: yaml: unmarshal errors:`, ""},
		"null in it":         {list + "[null]\n---\n" + node, "", ""},
		"a list of one kind": {node + "---\napiVersion: v1\nkind: ServiceList\n", "-: ServiceList of v1 is not read", ""},
		"a CacheNode twice":  {node + "---\n" + node, "-: CacheNode default/edge is in - already", ""},
		"a route twice":      {node + "---\n" + route + "---\n" + route, "-: HTTPRoute default/shop is in - already", ""},
		"a group that is wrong": {
			node + "---\n" + strings.Replace(route, "networking", "netwrking", 1), "",
			"HTTPRoute of gateway.netwrking.k8s.io/v1",
		},
		"another kind": {node + "---\napiVersion: apps/v1\nkind: Deployment\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := ReadAll([]string{"-"}, "default", strings.NewReader(tt.text))
			if tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) || tt.err == "" && err != nil {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if got := strings.Join(o.Ignored, ", "); got != tt.ignored {
				t.Errorf("ignored are %q, want %q", got, tt.ignored)
			}
		})
	}
}
