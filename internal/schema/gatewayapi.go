package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

//go:embed gatewayapi.json
var gatewayAPI []byte

// gatewayKinds contains the definitions of the kinds of the Gateway API, by kind.
var gatewayKinds = sync.OnceValues(func() (map[string]*definition, error) {
	var schemas map[string]*apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(gatewayAPI, &schemas); err != nil {
		return nil, err
	}
	kinds := map[string]*definition{}
	for kind, schema := range schemas {
		definition, err := newDefinition(schema)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		kinds[kind] = definition
	}
	return kinds, nil
})

// CheckGatewayAPI checks an object of a kind of the Gateway API, from YAML or JSON. The list contains the errors for
// which the API server would reject the object. The last result is an error if the object or the kind cannot be read.
func CheckGatewayAPI(kind string, data []byte) (field.ErrorList, error) {
	object, err := read(data)
	if err != nil {
		return nil, err
	}
	kinds, err := gatewayKinds()
	if err != nil {
		return nil, fmt.Errorf("the embedded schemas of the Gateway API: %w", err)
	}
	definition := kinds[kind]
	if definition == nil {
		return nil, fmt.Errorf("there is no schema of kind %q", kind)
	}
	return definition.admit(object), nil
}
