package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOutputIsDocumented checks that docs/reference/plugin-output.md names each field in the output for programs. It
// checks the verbs that need no cluster.
func TestOutputIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/plugin-output.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, spec string) string {
		path := filepath.Join(dir, name)
		text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\nspec:\n" +
			"  replicas: 2\n  origin: {servers: [{host: a.example.com}]}\n" + spec
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := file("before.yaml", "  disks: [{name: disk1, size: 1Ti}, {name: disk2, size: 1Ti}]\n")
	after := file("after.yaml",
		"  disks: [{name: disk1, size: 2Ti}, {name: disk3, size: 1Ti, localPath: {path: /srv/a}}]\n"+
			"  cache: {slice: {size: 1Mi}}\n  rollout: {maxKeyMovement: 1}\n")
	wrong := file("wrong.yaml", "  disks: [{name: disk1, size: 1}]\n")
	for verb, args := range map[string][]string{
		"plan":     {"plan", "-f", after, "--from", before},
		"validate": {"validate", "-f", after, "-f", wrong},
		"explain":  {"explain", "edge", "http://www.example.com/a", "-f", after},
	} {
		t.Run(verb, func(t *testing.T) {
			command := New("")
			var out strings.Builder
			command.SetOut(&out)
			command.SetArgs(append(args, "-o", "json"))
			_ = command.Execute() // validate exits with 1
			var value any
			if err := json.Unmarshal([]byte(out.String()), &value); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			_, section, _ := strings.Cut(string(page), "\n## "+verb+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			names := fieldsOf(value)
			if len(names) < 4 {
				t.Errorf("it prints %v", names)
			}
			for _, name := range names {
				if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b[^`\n]*`").MatchString(section) {
					t.Errorf("the page does not name %s", name)
				}
			}
		})
	}
}

// fieldsOf returns the names of all fields in a value.
func fieldsOf(value any) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			names = append(append(names, name), fieldsOf(inner)...)
		}
	case []any:
		for _, inner := range v {
			names = append(names, fieldsOf(inner)...)
		}
	}
	return names
}
