// Command panels waits until an alert fires. Then it sends all queries of the chart's dashboards to a Prometheus
// server, and fails if a query returns no data. It also draws charts of the panels that the docs show.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// dashboard contains the fields of a Grafana dashboard that this command reads.
type dashboard struct {
	Title  string
	Panels []struct {
		Title, Type string
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// drawn maps the titles of the panels that the docs show to the names of their charts.
var drawn = map[string]string{
	"State of the disks": "disk-state", "Hit ratio": "hit-ratio", "Requests by answer": "requests",
	"$disk: fill": "fill", "Pods": "pods",
}

func main() {
	log.SetFlags(0)
	address := flag.String("prometheus", "http://127.0.0.1:9090", "where Prometheus answers")
	alert := flag.String("alert", "", "the alert to wait for")
	within := flag.Duration("within", time.Minute, "how long to wait for it")
	out := flag.String("out", "", "a folder for the charts")
	flag.Parse()
	c, err := api.NewClient(api.Config{Address: *address})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(prometheus.NewAPI(c), *alert, *within, *out); err != nil {
		log.Fatal("panels: ", err)
	}
}

func run(p prometheus.API, alert string, within time.Duration, out string) error {
	ctx := context.Background()
	rules, err := p.Rules(ctx, nil)
	if err != nil {
		return err
	}
	count := 0
	for _, group := range rules.Groups {
		count += len(group.Rules)
	}
	fmt.Printf("%d rules are loaded\n", count)
	if err := await(ctx, p, alert, within); err != nil {
		return err
	}
	files, err := filepath.Glob("charts/cachenode-operator/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no dashboards: %w", err)
	}
	var empty []string
	queries := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		for _, panel := range d.Panels {
			var all model.Matrix
			for _, target := range panel.Targets {
				queries++
				matrix, err := ask(ctx, p, target.Expr)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", d.Title, panel.Title, err)
				}
				for _, series := range matrix {
					series.Metric["legend"] = model.LabelValue(legend(target.LegendFormat, series.Metric))
				}
				if len(matrix) == 0 {
					empty = append(empty, d.Title+": "+panel.Title+": "+target.Expr)
				}
				all = append(all, matrix...)
			}
			fmt.Printf("%-18s %-40s %d series\n", d.Title, panel.Title, len(all))
			if name := drawn[panel.Title]; name != "" && out != "" {
				if err := draw(filepath.Join(out, name+".svg"), panel.Title, panel.FieldConfig.Defaults.Unit, all); err != nil {
					return err
				}
			}
		}
	}
	if len(empty) > 0 {
		return fmt.Errorf("%d of %d queries return nothing:\n%s", len(empty), queries, strings.Join(empty, "\n"))
	}
	fmt.Printf("all %d queries return data\n", queries)
	return nil
}

// await waits until an alert fires.
func await(ctx context.Context, p prometheus.API, alert string, within time.Duration) error {
	begun := time.Now()
	for time.Since(begun) < within {
		result, err := p.Alerts(ctx)
		if err != nil {
			return err
		}
		for _, a := range result.Alerts {
			if string(a.Labels["alertname"]) == alert && a.State == prometheus.AlertStateFiring {
				fmt.Printf("%s fires after %s: %s\n", alert, time.Since(begun).Round(time.Second), a.Annotations["summary"])
				return nil
			}
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("%s does not fire within %s", alert, within)
}

// ask replaces the variables in a dashboard's query by values, as Grafana does. It returns the result of the query for
// the last 4 minutes.
func ask(ctx context.Context, p prometheus.API, expr string) (model.Matrix, error) {
	expr = strings.NewReplacer(
		"$__rate_interval", "30s", "$namespace", "demo", "$cachenode", "edge", "$pod", ".*", "$disk", "disk2",
	).Replace(expr)
	now := time.Now()
	value, _, err := p.QueryRange(ctx, expr, prometheus.Range{
		Start: now.Add(-4 * time.Minute), End: now, Step: 2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s is a %s, want a matrix", expr, value.Type())
	}
	return matrix, nil
}

func legend(format string, labels model.Metric) string {
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+string(name)+"}}", string(value))
	}
	return format
}

// draw draws a chart of a panel's data.
func draw(file, title, unit string, matrix model.Matrix) error {
	chart := plot.New()
	chart.Title.Text = strings.ReplaceAll(title, "$disk", "disk2")
	chart.X.Label.Text, chart.Y.Label.Text = "seconds", unit
	chart.Legend.Top = true
	chart.Y.Min = 0
	if unit == "percentunit" {
		chart.Y.Max = 1.05
	}
	begin := math.Inf(1)
	for _, series := range matrix {
		if len(series.Values) > 0 {
			begin = min(begin, float64(series.Values[0].Timestamp)/1000)
		}
	}
	for i, series := range matrix {
		points := make(plotter.XYs, 0, len(series.Values))
		for _, v := range series.Values {
			if f := float64(v.Value); !math.IsNaN(f) && !math.IsInf(f, 0) {
				points = append(points, plotter.XY{X: float64(v.Timestamp)/1000 - begin, Y: f})
			}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		chart.Add(line)
		chart.Legend.Add(string(series.Metric["legend"]), line)
	}
	chart.X.Max += (chart.X.Max - chart.X.Min) / 3 // room for the legend
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return chart.Save(18*vg.Centimeter, 9*vg.Centimeter, file)
}
