// Command bounds adds limits to the fields of a CustomResourceDefinition whose types are defined by Kubernetes, such as
// affinity. Every list and string of the API must have a limit, and markers cannot set limits inside these types.
// Fields that already have limits keep these limits. The command also replaces the pattern of quantities by a rule
// whose message says what is wrong.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The limits are much larger than any value that people write, and much smaller than values that could do harm.
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
				bound(name, &field)
				root.Properties[name] = field
			}
		}
	}
	metadata := map[string]any{"name": definition.Name, "annotations": definition.Annotations}
	if len(definition.Labels) > 0 {
		metadata["labels"] = definition.Labels
	}
	// This struct leaves out the status of the definition, because the API server writes the status.
	text, err := yaml.Marshal(struct {
		APIVersion string                                       `json:"apiVersion"`
		Kind       string                                       `json:"kind"`
		Metadata   any                                          `json:"metadata"`
		Spec       apiextensionsv1.CustomResourceDefinitionSpec `json:"spec"`
	}{
		definition.APIVersion,
		definition.Kind,
		metadata,
		definition.Spec,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], append([]byte("---\n"), text...), 0o600); err != nil {
		log.Fatal(err)
	}
}

// speak replaces the pattern of a quantity by a rule whose message says what is wrong, if the quantity has rules. It
// also changes these rules so that they accept a text that is no quantity. The user then sees one error instead of
// several.
func speak(name string, s *apiextensionsv1.JSONSchemaProps) {
	if !s.XIntOrString || len(s.XValidations) == 0 || !strings.Contains(s.XValidations[0].Rule, "quantity(string(self))") {
		return
	}
	s.Pattern = ""
	for i := range s.XValidations {
		s.XValidations[i].Rule = "!isQuantity(string(self)) || (" + s.XValidations[i].Rule + ")"
	}
	s.XValidations = append([]apiextensionsv1.ValidationRule{{
		Rule:              "isQuantity(string(self))",
		Message:           name + ": must be a quantity such as 500M, 1T or 1Ti",
		MessageExpression: fmt.Sprintf("%q + string(self) + %q", name+": ", " is no quantity: write it like 500M, 1T or 1Ti"),
	}}, s.XValidations...)
}

func bound(name string, s *apiextensionsv1.JSONSchemaProps) {
	speak(name, s)
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
		bound(name, &field)
		s.Properties[name] = field
	}
	if s.Items != nil && s.Items.Schema != nil {
		bound(name, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		bound(name, s.AdditionalProperties.Schema)
	}
}
