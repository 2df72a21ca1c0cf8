// Command reference writes the pages of docs/reference that follow from the code.
//
//	reference cachenode   the API of CacheNode: each field with its type and meaning
//	reference cachepurge  the API of CachePurge: each field with its type and meaning
//	reference cachepolicy the API of CachePolicy
//	reference plugin      the verbs and flags of kubectl cachenode
//	reference metrics     the metrics of agent and operator
//	reference headers     which headers of a client's request reach the origin
//	reference logs        the fields of the access log in JSON
package main

import (
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/config/crd"
)

// kubernetes lists the fields whose types are defined by Kubernetes. The pages do not list the fields inside these
// types, because the documentation of Kubernetes describes them.
var kubernetes = []string{
	"spec.pod.affinity", "spec.pod.tolerations", "spec.pod.topologySpreadConstraints", "spec.pod.resources",
	"spec.pod.imagePullSecrets",
	"status.conditions", "spec.targetRefs", "status.ancestors",
}

func main() {
	writers := map[string]func(){
		"cachenode":   func() { kindPage("CacheNode", crd.CacheNodes) },
		"cachepurge":  func() { kindPage("CachePurge", crd.CachePurges) },
		"cachepolicy": func() { kindPage("CachePolicy", crd.CachePolicies) },
		"plugin":      verbs, "metrics": metrics, "headers": requestHeaders, "logs": logFields,
	}
	if len(os.Args) != 2 || writers[os.Args[1]] == nil {
		log.Fatal("usage: reference cachenode|cachepurge|cachepolicy|plugin|metrics|headers|logs")
	}
	writers[os.Args[1]]()
	if err := os.Stdout.Close(); err != nil {
		log.Fatal(err)
	}
}

// kindPage writes the page of a kind, with a table of the fields of its spec and its status.
func kindPage(name string, crd []byte) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd, &definition); err != nil {
		log.Fatal(err)
	}
	root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	fmt.Printf("<!-- Written by hack/generate/reference from the API's comments: make generate. -->\n"+
		"# %s %s/%s\n\n%s\n",
		name, definition.Spec.Group, definition.Spec.Versions[0].Name, oneLine(root.Description))
	for _, part := range []string{"spec", "status"} {
		fmt.Printf("\n## %s\n\n| field | type | meaning |\n|---|---|---|\n", part)
		fields(part, root.Properties[part])
	}
}

func fields(path string, schema apiextensionsv1.JSONSchemaProps) {
	if schema.Items != nil && schema.Items.Schema != nil {
		path += "[]"
		schema = *schema.Items.Schema
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		required := ""
		if slices.Contains(schema.Required, name) {
			required = ", required"
		}
		fmt.Printf("| `%s.%s` | %s%s | %s |\n", path, name, kind(field), required, meaning(name, field))
		if !slices.Contains(kubernetes, path+"."+name) {
			fields(path+"."+name, field)
		}
	}
}

func kind(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "number or string"
	case s.Type == "array" && s.Items.Schema.Properties == nil:
		return "list of " + kind(*s.Items.Schema)
	case s.Type == "array":
		return "list"
	case len(s.Enum) > 0:
		return "enum"
	}
	return s.Type
}

// meaning returns the description of a field without its first words: the name of the field and "is" or "are".
func meaning(name string, s apiextensionsv1.JSONSchemaProps) string {
	text := oneLine(s.Description)
	for _, verb := range []string{" is ", " are "} {
		text = strings.TrimPrefix(text, name+verb)
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, name+" "), "|", `\|`)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
