package objects_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/objects"
)

// random returns objects whose keys are sorted, like the keys of an index.
func random(r *rand.Rand, n int) (list []objects.Object) {
	for i := range n {
		list = append(list, objects.Object{
			Key: fmt.Sprintf("http://h%d/d%d/%04d", i*3/n, i*9/n, i), Files: 1 + r.Int64N(3), Bytes: r.Int64N(50),
			Received: time.Unix(r.Int64N(50), 0),
		})
	}
	return list
}

// TestListing compares a listing of limited length with the beginning of a complete sorted list.
func TestListing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, order := range objects.Orders {
		for _, most := range []int{0, 1, 7, 300} {
			all := random(r, 200)
			l := objects.NewListing(objects.Query{Most: most, Sort: order, Groups: most, Depth: 1}, "disk1")
			want := objects.Store{Name: "disk1", Problem: "some"}
			groups := map[string]objects.Total{}
			for _, o := range all {
				l.Add(o)
				one := objects.Total{Objects: 1, Files: o.Files, Bytes: o.Bytes}
				want.Total.Add(one)
				sum := groups[o.Key[:len("http://h0/d0/")]]
				sum.Add(one)
				groups[o.Key[:len("http://h0/d0/")]] = sum
			}
			if most > 0 {
				want.Objects = slices.Clone(all)
				slices.SortFunc(want.Objects, order.Compare)
				want.Objects = want.Objects[:min(most, len(all))]
				for name, total := range groups {
					want.Groups = append(want.Groups, objects.Group{Name: name, Total: total})
				}
				slices.SortFunc(want.Groups, objects.CompareGroups)
				want.Groups = want.Groups[:min(most, len(want.Groups))]
			}
			if diff := cmp.Diff(want, l.Store("some")); diff != "" {
				t.Errorf("by %s, %d at most (-want +got):\n%s", order, most, diff)
			}
		}
	}
}
