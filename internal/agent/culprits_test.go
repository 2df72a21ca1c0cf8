package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCulprits checks that the routes that nginx refuses are found in few trials, and that none is named if the reason
// is another.
func TestCulprits(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 2000 {
		list = append(list, fmt.Sprint("team/route-", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, tt := range map[string]struct {
		list, bad []string
		always    bool
		most      int // of the elements that are accepted together; 0 means any number
		want      []string
	}{
		"one of many":        {list: list, bad: []string{"team/route-1234"}, want: []string{"team/route-1234"}},
		"the only one":       {list: list[:1], bad: list[:1], want: list[:1]},
		"two neighbours":     {list: list[:100], bad: list[98:100], want: list[98:100]},
		"the first and last": {list: list[:100], bad: []string{list[0], list[99]}, want: []string{list[0], list[99]}},
		"another reason":     {list: list, always: true},
		"only the master":    {list: list[:5]},
		"too many together":  {list: list[:5], most: 3},
		"no changed route":   {},
		"too many to be found": {list: list, bad: []string{
			list[random.IntN(500)], list[500+random.IntN(500)], list[1000+random.IntN(500)], list[1500+random.IntN(500)],
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trials := 0
			got := culprits(tt.list, func(without map[string]bool) bool {
				trials++
				if tt.most > 0 && len(tt.list)-len(without) > tt.most {
					return false
				}
				return !tt.always && !slices.ContainsFunc(tt.bad, func(id string) bool { return !without[id] })
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if trials > mostTrials+1 {
				t.Errorf("%d trials, want at most %d", trials, mostTrials)
			}
		})
	}
}
