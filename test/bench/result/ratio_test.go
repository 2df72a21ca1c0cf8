package result

import "testing"

func TestPaired(t *testing.T) {
	tests := map[string]struct {
		a, b []float64
		want string
		tie  bool
	}{
		"the machine became half as fast, the ratio stays": {
			[]float64{200, 100, 50}, []float64{100, 50, 25}, "2.00 (2.00-2.00)", false,
		},
		"medians would say 2, the rounds say otherwise": {
			[]float64{10, 20, 90}, []float64{10, 10, 100}, "= 1.00 (0.90-2.00)", true,
		},
		"slower in each round":              {[]float64{9, 8, 7}, []float64{10, 10, 10}, "0.80 (0.70-0.90)", false},
		"b answered nothing in some rounds": {[]float64{6, 6, 6, 0}, []float64{0, 3, 0, 0}, "+Inf (2.00-+Inf)", false},
		"nothing was measured":              {nil, nil, "0.00 (0.00-0.00)", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Paired(test.a, test.b)
			if got.String() != test.want || got.Tie() != test.tie {
				t.Errorf("%s (tie %t), want %s (tie %t)", got, got.Tie(), test.want, test.tie)
			}
		})
	}
}
