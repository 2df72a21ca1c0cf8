// Command gatewayapi prints the schemas of the kinds of the Gateway API that the operator reads, as JSON by kind,
// without descriptions. They come from the module of the Gateway API, in the version of go.mod.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		log.Fatal(err)
	}
	schemas := map[string]any{}
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		file := filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/gateway.networking.k8s.io_"+plural+".yaml")
		kind, schema, err := read(file)
		if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		schemas[kind] = schema
	}
	text, err := json.MarshalIndent(schemas, "", " ")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

// read returns the kind that a file defines, and the schema of its version v1.
func read(file string) (kind string, schema any, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return "", nil, err
	}
	versions := definition.Spec.Versions
	isV1 := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" }
	at := slices.IndexFunc(versions, isV1)
	if at < 0 {
		return "", nil, errors.New("no version v1")
	}
	text, err = json.Marshal(versions[at].Schema.OpenAPIV3Schema)
	if err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return "", nil, err
	}
	return definition.Spec.Names.Kind, plain(schema), nil
}

// plain returns a schema without the descriptions. A field can have the name description too; its value is an object.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if _, isText := inner.(string); isText && key == "description" {
				delete(v, key)
			} else {
				v[key] = plain(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return value
}
