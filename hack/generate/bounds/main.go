// Command bounds adds limits to the fields of a CustomResourceDefinition whose types are Kubernetes' own, such as affinity:
// markers cannot reach into them, and every list and string of the API is to be bounded. Fields with limits keep them.
package main

import (
	"log"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The limits: far beyond what anybody writes, and far below what could hurt.
const (
	maxLength = 4096
	maxItems  = 64
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: bounds FILE")
	}
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &definition); err != nil {
		log.Fatal(err)
	}
	for i := range definition.Spec.Versions {
		root := definition.Spec.Versions[i].Schema.OpenAPIV3Schema
		for name := range root.Properties {
			if name == "spec" || name == "status" {
				field := root.Properties[name]
				bound(&field)
				root.Properties[name] = field
			}
		}
	}
	// The status is the API server's to fill.
	text, err := yaml.Marshal(struct {
		APIVersion string                                       `json:"apiVersion"`
		Kind       string                                       `json:"kind"`
		Metadata   any                                          `json:"metadata"`
		Spec       apiextensionsv1.CustomResourceDefinitionSpec `json:"spec"`
	}{definition.APIVersion, definition.Kind, map[string]any{"name": definition.Name, "annotations": definition.Annotations}, definition.Spec})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], append([]byte("---\n"), text...), 0o600); err != nil {
		log.Fatal(err)
	}
}

func bound(s *apiextensionsv1.JSONSchemaProps) {
	switch {
	case (s.Type == "string" || s.XIntOrString) && len(s.Enum) == 0 && s.MaxLength == nil:
		s.MaxLength = new(int64(maxLength))
	case s.Type == "array" && s.MaxItems == nil:
		s.MaxItems = new(int64(maxItems))
	case s.Type == "object" && s.AdditionalProperties != nil && s.MaxProperties == nil:
		s.MaxProperties = new(int64(maxItems))
	}
	for name := range s.Properties {
		field := s.Properties[name]
		bound(&field)
		s.Properties[name] = field
	}
	if s.Items != nil && s.Items.Schema != nil {
		bound(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		bound(s.AdditionalProperties.Schema)
	}
}
