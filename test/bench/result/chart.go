// Package result writes the results of the benchmarks as JSON and as charts.
package result

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Bar is one bar of a chart, with its name and the values of all rounds.
type Bar struct {
	Name   string
	Values []float64
}

// Bars writes a chart to a file. For each bar, it draws the median of the values, and each value as a dot. The axis
// begins at 0. The extension of the file determines the format (svg or png).
func Bars(file, title, unit string, bars []Bar) error {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = title, unit, 0
	var names []string
	var medians plotter.Values
	var dots plotter.XYs
	for i, bar := range bars {
		names = append(names, bar.Name)
		medians = append(medians, Median(bar.Values))
		for _, v := range bar.Values {
			dots = append(dots, plotter.XY{X: float64(i), Y: v})
		}
	}
	columns, err := plotter.NewBarChart(medians, vg.Points(36))
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	columns.Color, columns.LineStyle.Width = color.RGBA{R: 70, G: 130, B: 180, A: 255}, 0
	rounds, err := plotter.NewScatter(dots)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	rounds.Radius = vg.Points(2)
	p.Add(columns, rounds)
	p.NominalX(names...)
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.X.Min, p.X.Max = -0.6, float64(len(bars))-0.4 // room for names
	return p.Save(7*vg.Inch, 3*vg.Inch, file)
}

// Median returns the median of values; 0 if there are no values. If two values are in the middle, it returns the
// larger of the two.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
