package main

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestIsMissing checks that an operator works without CachePurges if it may not or cannot read them, and ends for any
// other error.
func TestIsMissing(t *testing.T) {
	t.Parallel()
	purges := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "cachepurges"}
	for want, errs := range map[bool][]error{
		true: {
			&meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("CachePurge").GroupKind()},
			apierrors.NewForbidden(purges, "", errors.New("no")), apierrors.NewNotFound(purges, ""),
		},
		false: {errors.New("no route to host"), apierrors.NewServiceUnavailable("soon")},
	} {
		for _, err := range errs {
			if got := isMissing(fmt.Errorf("list CachePurges: %w", err)); got != want {
				t.Errorf("%v: %t, want %t", err, got, want)
			}
		}
	}
}
