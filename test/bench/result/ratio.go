package result

import (
	"fmt"
	"slices"
)

// Ratio compares two servers or pods that were measured in turn. Each ratio divides two figures of the same round,
// because the machine's speed changes between rounds. Median is the median of the ratios of all rounds.
//
// Low and High are the least and the greatest ratio of a round. With n rounds, the true median is between them with a
// probability of 1-2^(1-n): 94% with five rounds, 97% with six.
type Ratio struct {
	Median, Low, High float64
}

// Paired returns the ratio of the figures in a to the figures in b. Both lists contain one figure for each round. If
// only the figure in b is 0, the ratio of the round is infinite. If both figures are 0, Paired leaves out the round.
func Paired(a, b []float64) Ratio {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if a[i] != 0 || b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	if len(ratios) == 0 {
		return Ratio{}
	}
	return Ratio{Median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

// Tie returns true if the rounds do not agree on which of the two figures is larger.
func (r Ratio) Tie() bool { return r.Low <= 1 && r.High >= 1 }

// String returns the ratio as text, such as "1.45 (1.38-1.52)". A tie has a "=" before it.
func (r Ratio) String() string {
	text := fmt.Sprintf("%.2f (%.2f-%.2f)", r.Median, r.Low, r.High)
	if r.Tie() {
		return "= " + text
	}
	return text
}

// Values returns one figure of each sample, in the order of the samples.
func Values[S any](samples []S, figure func(S) float64) []float64 {
	var list []float64
	for _, s := range samples {
		list = append(list, figure(s))
	}
	return list
}
