package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// Objects are objects from files.
type Objects struct {
	CacheNodes []*v1alpha1.CacheNode
	gateways.Objects
	Services  []corev1.Service
	Secrets   []corev1.Secret
	Endpoints []discoveryv1.EndpointSlice
	// Ignored are the kinds and versions of objects of the Gateway API that the operator does not read.
	Ignored []string
	// Files contains the file of each Gateway, HTTPRoute and CachePolicy.
	Files map[ID]string
	// seen contains the file of each object.
	seen map[ID]string
}

// ReadOne reads the objects in files and folders; see [ReadAll]. It returns an error if there is more than one
// CacheNode.
func ReadOne(paths []string, namespace string, in io.Reader) (o Objects, err error) {
	if o, err = ReadAll(paths, namespace, in); err == nil && len(o.CacheNodes) != 1 {
		err = fmt.Errorf("%s: %d CacheNodes in it, want one", strings.Join(paths, ", "), len(o.CacheNodes))
	}
	return o, err
}

// Named returns the CacheNode with a name.
func (o Objects) Named(name string) (*v1alpha1.CacheNode, error) {
	for _, c := range o.CacheNodes {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no CacheNode %s in the files", name)
}

// Len returns the number of objects.
func (o Objects) Len() int {
	return len(o.CacheNodes) + len(o.Classes) + len(o.Gateways) + len(o.HTTPRoutes) + len(o.Policies) + len(o.Grants) +
		len(o.Namespaces) + len(o.Services) + len(o.Endpoints) + len(o.Secrets)
}

// ID identifies an object.
type ID struct {
	Kind string
	types.NamespacedName
}

func (id ID) String() string { return id.Kind + " " + id.NamespacedName.String() }

// Paths returns the files that paths name. For a folder, these are the files directly in it whose names end with .yaml,
// .yml or .json, as for kubectl.
func Paths(paths []string) (files []string, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() { // reading the file will say what is wrong with it
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, e := range entries {
			if extensions := []string{".yaml", ".yml", ".json"}; !e.IsDir() &&
				slices.Contains(extensions, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no file with the extension .yaml, .yml or .json in this folder", path)
		}
	}
	return files, nil
}

// ReadAll reads the objects in files and folders; see [Paths]. Objects without a namespace get the given one. It
// returns an error if an object is not valid, or if there is no CacheNode.
func ReadAll(paths []string, namespace string, in io.Reader) (o Objects, err error) {
	files, err := Paths(paths)
	if err != nil {
		return o, err
	}
	var problems []error
	for _, path := range files {
		for _, problem := range Problems(o.Add(path, namespace, in)) {
			problems = append(problems, fmt.Errorf("%s: %w", path, problem))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return o, err
	}
	if len(o.CacheNodes) == 0 {
		return o, fmt.Errorf("%s: no CacheNode in it: add its file with another --filename", strings.Join(paths, ", "))
	}
	return o, nil
}

// Add adds the objects of a file. Objects without a namespace get the given one. It returns an error, and adds only
// some objects, if an object is not valid. It skips kinds that do not matter.
func (o *Objects) Add(path, namespace string, in io.Reader) error {
	if o.Files == nil {
		o.Files, o.seen = map[ID]string{}, map[ID]string{}
	}
	cacheNodes, err := readCacheNodes(path, in, func(kind metav1.TypeMeta, document []byte) error {
		return o.add(path, kind, namespace, document)
	})
	for _, c := range cacheNodes {
		if c.Namespace == "" {
			c.Namespace = namespace
		}
		name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		err = errors.Join(err, o.note(ID{"CacheNode", name}, path))
	}
	o.CacheNodes = append(o.CacheNodes, cacheNodes...)
	return err
}

// note notes the file of an object. It returns an error if there was such an object already, because a cluster has
// only one.
func (o *Objects) note(id ID, path string) error {
	if before, ok := o.seen[id]; ok {
		return fmt.Errorf("%s is in %s already", id, before)
	}
	o.seen[id] = path
	return nil
}

// Problems returns the errors that are joined in an error.
func Problems(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Problems(e)...)
	}
	return all
}

// add adds the object in a document.
func (o *Objects) add(path string, kind metav1.TypeMeta, namespace string, document []byte) (err error) {
	group, version, _ := strings.Cut(kind.APIVersion, "/")
	var name types.NamespacedName
	switch {
	case group == gw.GroupName && (version == "v1" || version == "v1beta1"): // both have the same fields
		return o.addGatewayAPI(path, kind.Kind, namespace, document)
	case kind.APIVersion == v1alpha1.GroupVersion.String() && kind.Kind == policyKind:
		return o.addPolicy(path, namespace, document)
	case kind.APIVersion == "v1" && kind.Kind == "Namespace":
		name, err = decode(document, "", &o.Namespaces)
	case kind.APIVersion == "v1" && kind.Kind == "Service":
		name, err = decode(document, namespace, &o.Services)
	case kind.APIVersion == "v1" && kind.Kind == "Secret":
		name, err = decode(document, namespace, &o.Secrets)
	case kind.APIVersion == "discovery.k8s.io/v1" && kind.Kind == "EndpointSlice":
		name, err = decode(document, namespace, &o.Endpoints)
	default:
		if strings.HasPrefix(group, "gateway.networking.") || slices.Contains(known, kind.Kind) {
			o.ignore(kind)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind.Kind, err)
	}
	return o.note(ID{kind.Kind, name}, path)
}

// known are the kinds that are read. If the group of such an object is another one, there is probably a mistake in it.
var known = []string{
	"GatewayClass", "Gateway", "HTTPRoute", "ReferenceGrant", "Namespace", "Service", "Secret", "EndpointSlice",
	policyKind,
}

const policyKind = "CachePolicy"

// addPolicy adds a CachePolicy, if the API server would accept it.
func (o *Objects) addPolicy(path, namespace string, document []byte) error {
	policy, errs, err := schema.DecodePolicy(document)
	if err != nil {
		return fmt.Errorf("%s: %w", policyKind, err)
	}
	for _, e := range errs {
		err = errors.Join(err, fmt.Errorf("%s: %w", policyKind, e))
	}
	if err != nil {
		return err
	}
	if policy.Namespace == "" {
		policy.Namespace = namespace
	}
	id := ID{policyKind, types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}}
	o.Policies = append(o.Policies, *policy)
	o.Files[id] = path
	return o.note(id, path)
}

// addGatewayAPI adds an object of the Gateway API, if the API server would accept it.
func (o *Objects) addGatewayAPI(path, kind, namespace string, document []byte) error {
	var name types.NamespacedName
	var err error
	switch kind {
	case "GatewayClass":
		name, err = decode(document, "", &o.Classes)
	case "Gateway":
		name, err = decode(document, namespace, &o.Gateways)
		o.Files[ID{kind, name}] = path
	case "HTTPRoute":
		name, err = decode(document, namespace, &o.HTTPRoutes)
		o.Files[ID{kind, name}] = path
	case "ReferenceGrant":
		name, err = decode(document, namespace, &o.Grants)
	default:
		o.ignore(metav1.TypeMeta{APIVersion: gw.GroupName, Kind: kind})
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	errs, err := schema.CheckGatewayAPI(kind, document)
	for _, e := range errs {
		err = errors.Join(err, fmt.Errorf("%s %s: %w", kind, name, e))
	}
	return errors.Join(err, o.note(ID{kind, name}, path))
}

func (o *Objects) ignore(kind metav1.TypeMeta) {
	o.Ignored = append(o.Ignored, kind.Kind+" of "+kind.APIVersion)
}

// decode adds the object in a document to a list, and returns the name of the object.
func decode[T any, P interface {
	*T
	metav1.Object
}](document []byte, namespace string, list *[]T) (name types.NamespacedName, err error) {
	var object P = new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return name, err
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	*list = append(*list, *object)
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, nil
}
