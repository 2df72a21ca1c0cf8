package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/config/crd"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// inText lists the forms in which a sentence can name a field and its default.
var inText = []*regexp.Regexp{
	regexp.MustCompile("`([\\w.\\[\\]]+)`(?: percent)?(?: is|,| \\() ?(\\d+ ?\\w*%?|\\w+) by default"),
	regexp.MustCompile("`([\\w.\\[\\]]+)` \\(default (\\w+)\\)"),
	regexp.MustCompile("`([\\w.\\[\\]]+): (\\w+)`,? (?:\\(|is )?the default"),
	regexp.MustCompile("the default of `([\\w.\\[\\]]+)` is (\\w+)"),
}

// inMark is the form of a comment on text that is true only with certain defaults, but does not name them, such as
// "pods share the keys":
//
//	<!-- with the defaults routing.mode: Sharded, routing.handover: 10m -->
var inMark = regexp.MustCompile(`(?:^<!-- with the defaults|,) ([\w.\[\]]+): (\w+)`)

// TestDocumentedDefaults compares the defaults that the docs state with the defaults of the API. It fails if a sentence
// states the default of a field in a form that the test does not know.
func TestDocumentedDefaults(t *testing.T) {
	defaults, _ := defaultsOf(t)
	says := regexp.MustCompile(`by default|\(default |the default of|\(the default`)
	field := regexp.MustCompile("`(?:spec\\.)?([\\w.\\[\\]]+)(?:: \\w+)?`")
	count := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			forms := inText
			if strings.HasPrefix(line, "<!--") {
				forms = []*regexp.Regexp{inMark}
			}
			found := false
			for _, form := range forms {
				for _, m := range form.FindAllStringSubmatch(line, -1) {
					name, value := strings.TrimPrefix(m[1], "spec."), m[2]
					want, known := defaults[name]
					if known {
						found = true
						count++
					} else if form == inMark {
						t.Errorf("%s:%d: %s has no default that this test knows", page, i+1, name)
					}
					if known && !isSame(value, want) {
						t.Errorf("%s:%d says that %s is %s by default, and it is %s", page, i+1, name, value, want)
					}
				}
			}
			name := field.FindStringSubmatch(line)
			if !found && says.MatchString(line) && name != nil && defaults[name[1]] != "" {
				t.Errorf("%s:%d: write `%s` (VALUE by default), so that this test can check it", page, i+1, name[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("%d defaults were checked, want more", count)
	}
}

// TestDescribedDefaults compares the defaults that the comments of the API state with the defaults that the API server
// sets.
func TestDescribedDefaults(t *testing.T) {
	defaults, descriptions := defaultsOf(t)
	count := 0
	for path, description := range descriptions {
		value := regexp.QuoteMeta(defaults[path])
		if !regexp.MustCompile("[Dd]efault " + value + `(\W|$)|\b` + value + ` \(default`).MatchString(description) {
			t.Errorf("%s is %s by default, and its comment says: %s", path, defaults[path], description)
		}
		count++
	}
	if count < 50 {
		t.Errorf("%d comments were checked, want more", count)
	}
}

// isSame reports whether the value on a page is the default. A time on a page may have a space before its unit.
func isSame(said, want string) bool {
	a, notTime := time.ParseDuration(strings.ReplaceAll(said, " ", ""))
	b, notTime2 := time.ParseDuration(want)
	if notTime == nil && notTime2 == nil {
		return a == b
	}
	return said == want || said == "off" && want == "false" || said == "on" && want == "true"
}

// pages returns README.md and the pages of the docs, except the decisions in docs/adr. A decision may name the defaults
// of an earlier time.
func pages(t *testing.T) []string {
	t.Helper()
	const top = "../../../"
	list := []string{top + "README.md"}
	err := filepath.WalkDir(top+"docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && !strings.HasPrefix(path, top+"docs/adr/") {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// defaultsOf returns the defaults of the spec's fields, by path. They are the defaults that the API server sets, and
// some values that the operator chooses for a new CacheNode of three pods with hard disks. descriptions contains the
// comments on the fields whose defaults the API server sets.
func defaultsOf(t *testing.T) (defaults, descriptions map[string]string) {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(`{apiVersion: cachenode.io/v1alpha1, kind: CacheNode,
		metadata: {name: edge}, spec: {replicas: 3, disks: [{name: disk1, size: 1Ti}],
		origin: {servers: [{service: {name: origin, port: 80}}]}}}`))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	spec := effective.Of(cacheNode, effective.Before{}).Spec
	defaults = map[string]string{
		"routing.mode":       string(spec.Routing.Mode),
		"routing.handover":   effective.Handover(spec.Routing).String(),
		"purge.grace":        effective.PurgeGrace(spec).String(),
		"memoryTier.enabled": fmt.Sprint(*spec.MemoryTier.Enabled),
	}
	descriptions = map[string]string{}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.CacheNodes, &definition); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Default != nil && s.Type != "object" && s.Type != "array" {
			var value any
			if err := json.Unmarshal(s.Default.Raw, &value); err != nil {
				t.Fatal(path, err)
			}
			if value != "" { // some types of Kubernetes, such as references, have the default ""
				defaults[path], descriptions[path] = fmt.Sprint(value), strings.Join(strings.Fields(s.Description), " ")
			}
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", *s.Items.Schema)
		}
		for name, child := range s.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), child)
		}
	}
	walk("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	return defaults, descriptions
}
