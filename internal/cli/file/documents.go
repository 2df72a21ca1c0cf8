package file

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
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
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if kind := kindOf(document); kind.APIVersion != "v1" || kind.Kind != "List" {
			list = append(list, document)
			continue
		}
		var of struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := yaml.Unmarshal(document, &of); err != nil {
			return nil, fmt.Errorf("items of a List: %w", err)
		}
		for _, item := range of.Items {
			list = append(list, item)
		}
	}
}

// kindOf returns the kind of a document with its group and version. The kind is "" if it is unknown.
func kindOf(document []byte) (kind metav1.TypeMeta) {
	if yaml.Unmarshal(document, &kind) != nil {
		return metav1.TypeMeta{}
	}
	return kind
}
