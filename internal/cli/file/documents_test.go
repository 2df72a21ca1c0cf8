package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	list["items"] = items
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
	if diff := cmp.Diff(want, got); diff != "" || len(got.HTTPRoutes) == 0 {
		t.Errorf("%d routes; (-want +got)\n%s", len(got.HTTPRoutes), diff)
	}
	_, err = ReadAll([]string{"-"}, "default", strings.NewReader("apiVersion: v1\nkind: List\nitems: 1\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "items of a List: ") {
		t.Errorf("items that are no list: %v", err)
	}
}
