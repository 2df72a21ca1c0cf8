package file

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	gw "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// documents returns the objects in a file, each as YAML or JSON. The items of a List, as kubectl get prints it, take
// its place.
func documents(in io.Reader) (list [][]byte, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		objects, err := objectsIn(document)
		if err != nil {
			return nil, err
		}
		list = append(list, objects...)
	}
}

// objectsIn returns the objects in a document. This is the document itself, unless it is a List or empty.
func objectsIn(document []byte) (list [][]byte, err error) {
	switch kind := kindOf(document); {
	case kind.Kind == "" && isEmpty(document):
		return nil, nil
	case kind.APIVersion != "v1" || kind.Kind != "List":
		return [][]byte{document}, nil
	}
	text, err := yaml.YAMLToJSONStrict(document) // a key that occurs twice is an error, as in other documents
	if err != nil {
		return nil, fmt.Errorf("a List: %w", err)
	}
	var of struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, fmt.Errorf("items of a List: %w", err)
	}
	for _, item := range of.Items {
		objects, err := objectsIn(item)
		if err != nil {
			return nil, err
		}
		list = append(list, objects...)
	}
	return list, nil
}

// isEmpty returns true for a document that contains nothing but white space and comments.
func isEmpty(document []byte) bool {
	var content any
	return yaml.Unmarshal(document, &content) == nil && content == nil
}

// isList returns true for a list of objects of one kind, such as a CacheNodeList. Programs write such lists, and
// kubectl does not.
func isList(kind metav1.TypeMeta) bool {
	group, _, _ := strings.Cut(kind.APIVersion, "/")
	return strings.HasSuffix(kind.Kind, "List") &&
		slices.Contains([]string{"v1", v1alpha1.GroupVersion.Group, gw.GroupName, discoveryv1.GroupName}, group)
}

// kindOf returns the kind of a document with its group and version. The kind is "" if it is unknown.
func kindOf(document []byte) (kind metav1.TypeMeta) {
	if yaml.Unmarshal(document, &kind) != nil {
		return metav1.TypeMeta{}
	}
	return kind
}
