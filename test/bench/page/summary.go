package main

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// row is a case in the table of the first page, and a bar in the chart of this page.
type row struct {
	label, result, page string
	load                int
}

// rows are the cases that the first page shows.
var rows = []row{
	{"fast disks, 4 KiB, random", "fast-4k-random", "fast-disks.md", 0},
	{"fast disks, 64 KiB, random", "fast-64k-random", "fast-disks.md", 0},
	{"fast disks, 1 MiB, random", "fast-1m-random", "fast-disks.md", 0},
	{"fast disks, 64 KiB, hot beside random", "fast-64k-both", "fast-disks.md", 1},
	{"hard disks, 64 KiB, random", "slow-64k-300", "slow-disks.md", 0},
	{"hard disks, 64 KiB, hot beside random", "slow-64k-300", "slow-disks.md", 1},
	{"hard disks, 1 MiB, random", "slow-1m-300", "slow-disks.md", 0},
	{"hard disks, 64 KiB, mix with misses", "zipf-64k-used", "mix.md", 0},
}

// summary returns the table of the first page.
func (r *results) summary() (string, error) {
	header, others := []string{"disks, objects, load", "CacheNode, requests/s", "CacheNode, p99 ms"}, otherNames[:4]
	for _, name := range others {
		header = append(header, name[1])
	}
	lines := [][]string{header}
	for _, row := range rows {
		d, err := r.result(row.result)
		if err != nil {
			return "", err
		}
		line := []string{
			fmt.Sprintf("[%s](%s)", row.label, row.page),
			thousands(result.Median(figures(d, ownName, rate(row.load)))),
			milliseconds(d, ownName, row.load, p99),
		}
		for _, name := range others {
			line = append(line, ratioText(against(d, name[0], row.load)))
		}
		lines = append(lines, line)
	}
	return markdown(lines), nil
}

// gainRows are the cases in the table of the project's first page. They include CacheNode's best cases and its worst
// cases.
var gainRows = []row{
	{"hard disks, 64 KiB, random", "slow-64k-300", "", 0},
	{"hard disks, 1 MiB, random", "slow-1m-300", "", 0},
	{"fast disks, 64 KiB, random", "fast-64k-random", "", 0},
	{"hard disks, 64 KiB, mix with misses", "zipf-64k-used", "", 0},
	{"fast disks, 64 KiB, hot beside random", "fast-64k-both", "", 1},
	{"fast disks, 4 KiB, hot beside random", "fast-4k-both", "", 1},
}

// gainTable returns the table of the project's first page.
func (r *results) gainTable() (string, error) {
	others := []string{plainNginx, theArticle, articlePrepared, trafficServer}
	header := []string{"requests per second, compared with"}
	for _, server := range others {
		header = append(header, tableName(server))
	}
	header[3] = tableName(theArticle) + ", on prepared disks"
	lines := [][]string{header}
	for _, row := range gainRows {
		d, err := r.result(row.result)
		if err != nil {
			return "", err
		}
		line := []string{row.label}
		for _, server := range others {
			line = append(line, ratioText(against(d, server, row.load)))
		}
		lines = append(lines, line)
	}
	return markdown(lines), nil
}

// best returns the ratio of CacheNode to the fastest other server: the server with the highest median of requests a
// second.
func best(d document, load int) result.Ratio {
	var most float64
	var ratio result.Ratio
	for _, name := range otherNames {
		if other, ok := against(d, name[0], load); ok {
			if served := result.Median(figures(d, name[0], rate(load))); served > most {
				most, ratio = served, other
			}
		}
	}
	return ratio
}

// chart draws a bar for each row of the table. The bar shows the ratio of CacheNode to the fastest other server. Bars
// are blue for gains, red for losses, and grey for ties.
func (r *results) chart(file string) error {
	p := plot.New()
	p.Title.Text = "CacheNode's requests per second, divided by those of the best other server in the case"
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.X.Min = 0
	colours := map[string]color.RGBA{
		"more":  {R: 70, G: 130, B: 180, A: 255},
		"fewer": {R: 200, G: 50, B: 50, A: 255},
		"tie":   {R: 160, G: 160, B: 160, A: 255},
	}
	var labels []string
	for i := range rows {
		row := rows[len(rows)-1-i] // the first row is at the top, and the axis goes up
		d, err := r.result(row.result)
		if err != nil {
			return err
		}
		ratio := best(d, row.load)
		bar, err := plotter.NewBarChart(plotter.Values{ratio.Median}, vg.Points(14))
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(i), 0
		switch {
		case ratio.Tie():
			bar.Color = colours["tie"]
		case ratio.Median < 1:
			bar.Color = colours["fewer"]
		default:
			bar.Color = colours["more"]
		}
		rounds, err := plotter.NewXErrorBars(struct {
			plotter.XYer
			plotter.XErrorer
		}{
			plotter.XYs{{X: ratio.Median, Y: float64(i)}},
			plotter.XErrors{{Low: ratio.Low - ratio.Median, High: ratio.High - ratio.Median}},
		})
		if err != nil {
			return err
		}
		p.Add(bar, rounds)
		// The spaces leave room for a viewer whose font is wider than the font for which the plot was laid out.
		labels = append(labels, row.label+strings.Repeat(" ", 16))
		p.X.Max = max(p.X.Max, ratio.High*1.05)
	}
	equal, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(rows)) - 0.5}})
	if err != nil {
		return err
	}
	equal.Dashes = []vg.Length{vg.Points(3), vg.Points(3)}
	p.Add(equal)
	p.NominalY(labels...)
	return p.Save(8*vg.Inch, 3.5*vg.Inch, file)
}
