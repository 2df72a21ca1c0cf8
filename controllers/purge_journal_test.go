package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// TestForgetLost checks that a purge stays in the list of purges without their place as long as the operator's cache
// still shows the lost place.
func TestForgetLost(t *testing.T) {
	t.Parallel()
	j := &journal{log: purge.NewLog(9), lost: map[types.UID]bool{"shown": true, "none": true, "other": true, "gone": true}}
	var purges []v1alpha1.CachePurge
	for uid, number := range map[types.UID]int64{"shown": 9, "none": 0, "other": 10, "never lost": 3} {
		cp := v1alpha1.CachePurge{Status: v1alpha1.CachePurgeStatus{Number: number}}
		cp.UID = uid
		purges = append(purges, cp)
	}
	j.forgetLost(purges)
	if diff := cmp.Diff(map[types.UID]bool{"shown": true}, j.lost); diff != "" {
		t.Error(diff)
	}
}
