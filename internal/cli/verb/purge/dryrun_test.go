package purge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

func TestFindings(t *testing.T) {
	t.Parallel()
	store := func(pod, name string, n int64) podobjects.Store {
		return podobjects.Store{Pod: pod, Store: objects.Store{
			Name: name, Total: objects.Total{Objects: n, Files: 2 * n, Bytes: 100 * n},
		}}
	}
	got := findings([]podobjects.Store{
		store("edge-0", "disk1", 1), store("edge-0", "disk2", 2), store("edge-0", purge.MemoryStore, 3),
		store("edge-1", "disk1", 4),
	})
	want := []finding{
		{"edge-0", objects.Total{Objects: 3, Files: 6, Bytes: 300}, objects.Total{Objects: 3, Files: 6, Bytes: 300}},
		{"edge-1", objects.Total{Objects: 4, Files: 8, Bytes: 400}, objects.Total{}},
		{"all", objects.Total{Objects: 7, Files: 14, Bytes: 700}, objects.Total{Objects: 3, Files: 6, Bytes: 300}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(finding{})); diff != "" {
		t.Error(diff)
	}
}
