// Package schema checks objects in the same way as the API server, but without a cluster: CacheNodes, CachePolicies,
// and the kinds of the Gateway API that the operator reads. It rejects unknown fields, applies the CRD's defaults, and
// checks the CRD's schema and CEL rules. For all of this, it uses the API server's own code.
//
// Of the project, the package imports only the API's types and the CRDs (config/crd). Rules of the API itself belong in
// the comments of package v1alpha1. gatewayapi.json is generated from the module of the Gateway API.
package schema

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	names "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	crds "github.com/cachenode/cachenode-operator/config/crd"
)

// definition contains the schema of a kind, in the forms that the API server's packages need.
type definition struct {
	structural *structural.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newDefinition(schema *apiextensionsv1.JSONSchemaProps) (*definition, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		schema, &internal, nil); err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &definition{structural: s, schema: validator, rules: cel.NewValidator(s, true, celconfig.PerCallLimit)}, nil
}

var (
	cacheNodes    = definitionIn(crds.CacheNodes)
	cachePolicies = definitionIn(crds.CachePolicies)
)

// definitionIn returns a function that reads a CustomResourceDefinition when it is first needed.
func definitionIn(text []byte) func() (*definition, error) {
	return sync.OnceValues(func() (*definition, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return nil, err
		}
		return newDefinition(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	})
}

// Decode reads one CacheNode from YAML or JSON, and returns it in the form in which the API server would store it. The
// list of errors contains the mistakes in the CacheNode, with paths such as spec.origin.servers[0].host. The last
// result is an error if the input is not a CacheNode at all.
func Decode(data []byte) (*v1alpha1.CacheNode, field.ErrorList, error) {
	return decode[v1alpha1.CacheNode](data, "CacheNode", cacheNodes)
}

// DecodePolicy does the same as Decode for a CachePolicy.
func DecodePolicy(data []byte) (*v1alpha1.CachePolicy, field.ErrorList, error) {
	return decode[v1alpha1.CachePolicy](data, "CachePolicy", cachePolicies)
}

func decode[T any](data []byte, kind string, of func() (*definition, error)) (*T, field.ErrorList, error) {
	object, err := read(data)
	if err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	if want := v1alpha1.GroupVersion.WithKind(kind); u.GroupVersionKind() != want {
		return nil, nil, fmt.Errorf("got kind %q of %q, want kind %s of %s",
			u.GetKind(), u.GetAPIVersion(), kind, v1alpha1.GroupVersion)
	}
	definition, err := of()
	if err != nil {
		return nil, nil, fmt.Errorf("the embedded CustomResourceDefinition: %w", err)
	}
	if errs := definition.admit(object); len(errs) > 0 {
		return nil, errs, nil
	}
	decoded := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, decoded); err != nil {
		return nil, nil, err
	}
	return decoded, nil, nil
}

// read reads an object from YAML or JSON.
func read(data []byte) (object map[string]any, err error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(text, &object) // whole numbers become int64, as in the API server
}

// admit applies the defaults to the object and returns the errors for which the API server would reject the object.
func (n *definition) admit(object map[string]any) field.ErrorList {
	var errs field.ErrorList
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, n.structural, true, options) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "no such field"})
	}
	defaulting.Default(object, n.structural)
	errs = append(errs, nameErrors(object)...)
	errs = append(errs, validation.ValidateCustomResource(nil, object, n.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, n.structural, object)...)
	if len(errs) > 0 {
		return errs // the CEL rules need an object that fits the schema
	}
	broken, _ := n.rules.Validate(context.Background(), nil, n.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return broken
}

// nameErrors returns an error for an object without a valid name, because the schema does not check the name.
func nameErrors(object map[string]any) (errs field.ErrorList) {
	u, path := unstructured.Unstructured{Object: object}, field.NewPath("metadata", "name")
	if u.GetName() == "" {
		return field.ErrorList{field.Required(path, "an object needs a name")}
	}
	for _, problem := range names.NameIsDNSSubdomain(u.GetName(), false) {
		errs = append(errs, field.Invalid(path, u.GetName(), problem))
	}
	return errs
}
