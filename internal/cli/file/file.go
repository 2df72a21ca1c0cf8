// Package file reads CacheNodes and the objects of the Gateway API from files, for the plugin's verbs that take files.
//
// It imports schema and validation, which check the CacheNodes, and gateways, which says what the other objects mean.
// New kinds of files or objects that verbs read belong here.
package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// NoReplicas is an annotation on a CacheNode that was read from a document without spec.replicas. It means that
// somebody else sets the number of replicas. It is never sent anywhere.
const NoReplicas = "file.cachenode.io/no-replicas"

// Read reads every CacheNode in the file at path. If path is -, it reads from in. It skips other kinds, because such
// a file may also contain the objects of the origin.
func Read(path string, in io.Reader) ([]*v1alpha1.CacheNode, error) {
	cacheNodes, err := readCacheNodes(path, in, nil)
	if err == nil && len(cacheNodes) == 0 {
		return nil, fmt.Errorf("%s: no CacheNode in it", path)
	}
	return cacheNodes, err
}

// readCacheNodes returns the CacheNodes in a file, and calls other, if it is not nil, for each document that contains
// another kind.
func readCacheNodes(
	path string, in io.Reader, other func(kind metav1.TypeMeta, document []byte) error,
) (cacheNodes []*v1alpha1.CacheNode, err error) {
	if path != "-" {
		opened, err := os.Open(path) //nolint:gosec // the user's choice
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	all, err := documents(in)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, document := range all {
		kind := kindOf(document)
		if kind.Kind == "" || kind.APIVersion == "" {
			if err := yaml.Unmarshal(document, &kind); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("an object without apiVersion or kind: %.60q", bytes.TrimSpace(document))
		}
		if isList(kind) {
			problems = append(problems, fmt.Errorf("%s of %s is not read: write a List of v1", kind.Kind, kind.APIVersion))
			continue
		}
		if kind.Kind != "CacheNode" {
			if other != nil {
				if err := other(kind, document); err != nil {
					problems = append(problems, err)
				}
			}
			continue
		}
		cacheNode, errs, err := schema.Decode(document)
		if err != nil {
			return nil, err
		}
		if len(errs) == 0 {
			errs = validation.Validate(cacheNode)
		}
		for _, e := range errs {
			problems = append(problems, e)
		}
		if cacheNode != nil && !hasReplicas(document) {
			metav1.SetMetaDataAnnotation(&cacheNode.ObjectMeta, NoReplicas, "true")
		}
		cacheNodes = append(cacheNodes, cacheNode)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return cacheNodes, nil
}

// hasReplicas returns true if a document has spec.replicas.
func hasReplicas(document []byte) bool {
	var object struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	return yaml.Unmarshal(document, &object) == nil && object.Spec.Replicas != nil
}

// One reads the only CacheNode in a file. It returns an error if the file contains none, or more than one.
func One(path string, in io.Reader) (*v1alpha1.CacheNode, error) {
	cacheNodes, err := Read(path, in)
	if err != nil {
		return nil, err
	}
	if len(cacheNodes) != 1 {
		return nil, fmt.Errorf("%s: %d CacheNodes in it, want one", path, len(cacheNodes))
	}
	return cacheNodes[0], nil
}
