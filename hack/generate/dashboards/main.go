// Command dashboards writes the chart's Grafana dashboards. They are described in Go, as their JSON repeats itself.
//
//	dashboards DIR
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: dashboards DIR")
	}
	for name, d := range map[string]dashboard{"fleet": fleet, "node": cacheNode} {
		text, err := json.MarshalIndent(d.model(), "", "  ")
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], name+".json"), append(text, '\n'), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// dashboard is rows of panels, with the variables that choose what the panels show.
type dashboard struct {
	uid, title, description string
	variables               []variable
	rows                    []row
}

// variable is a list to choose from: the values of a metric's label.
type variable struct {
	name, query string
	many        bool
}

// row is a line of panels. If repeat names a variable, there is a row for each of the variable's values.
type row struct {
	title, repeat string
	panels        []panel
}

// panel is one diagram.
type panel struct {
	title, description string
	// kind is Grafana's: "" for timeseries, or stat, heatmap, state-timeline, table.
	kind string
	// unit is Grafana's: percentunit, Bps, s, bytes, reqps, short.
	unit    string
	stacked bool
	queries []query
}

// query is a PromQL expression and the legend of its series.
type query struct{ expr, legend string }

const (
	columns = 24
	height  = 8
	// schema is the version of Grafana's dashboard model, that of Grafana 11.
	schema = 39
)

// object is a JSON object.
type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) model() object {
	var panels []object
	y, id := 0, 0
	for _, r := range d.rows {
		id++
		line := object{
			"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": grid(0, y, columns, 1),
		}
		if r.repeat != "" {
			line["repeat"] = r.repeat
		}
		panels = append(panels, line)
		y++
		width := columns / min(len(r.panels), 3)
		for i, p := range r.panels {
			id++
			panels = append(panels, p.model(id, grid(i%3*width, y+i/3*height, width, height)))
		}
		y += (len(r.panels) + 2) / 3 * height
	}
	return object{
		"uid": d.uid, "title": d.title, "description": d.description, "tags": []string{"cachenode"},
		"schemaVersion": schema, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s",
		"timezone": "browser", "time": object{"from": "now-3h", "to": "now"},
		"templating": object{"list": d.templating()}, "panels": panels,
		"links": []object{{
			"type": "dashboards", "title": "CacheNode", "tags": []string{"cachenode"},
			"includeVars": true, "keepTime": true,
		}},
		"annotations": object{"list": []object{{
			"name": "Revisions", "enable": true, "iconColor": "blue", "datasource": source,
			"titleFormat": "{{cachenode}}: {{revision}}",
			"expr": `count by (namespace, cachenode, revision) ` +
				`(cachenode_config_info{namespace=~"$namespace", cachenode=~"$cachenode"} ` +
				`unless cachenode_config_info offset 2m)`,
		}}},
	}
}

func (d dashboard) templating() []object {
	list := []object{{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}
	for _, v := range d.variables {
		one := object{
			"name": v.name, "type": "query", "datasource": source, "refresh": 2, "sort": 1,
			"multi": v.many, "includeAll": v.many,
			"query": object{"query": v.query, "refId": "A"}, "definition": v.query,
		}
		if v.many {
			one["current"] = object{"text": "All", "value": "$__all"}
			one["allValue"] = ".*"
		}
		list = append(list, one)
	}
	return list
}

func (p panel) model(id int, position object) object {
	kind := p.kind
	if kind == "" {
		kind = "timeseries"
	}
	custom := object{}
	if kind == "timeseries" {
		custom = object{"fillOpacity": 10, "showPoints": "never"}
		if p.stacked {
			custom["stacking"] = object{"mode": "normal"}
			custom["fillOpacity"] = 40
		}
	}
	defaults := object{"unit": p.unit, "custom": custom}
	if p.unit == "percentunit" {
		defaults["min"], defaults["max"] = 0, 1
	}
	options := object{}
	format := "time_series"
	switch kind {
	case "heatmap":
		format = "heatmap"
		options = object{
			"calculate": false, "yAxis": object{"unit": p.unit},
			"color": object{"scheme": "Oranges", "mode": "scheme"},
		}
	case "state-timeline":
		defaults["mappings"] = []object{{"type": "value", "options": object{
			"0": object{"text": "out of use", "color": "red"}, "1": object{"text": "in use", "color": "green"},
		}}}
	case "table":
		format = "table"
	}
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{
			"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend,
			"format": format, "instant": kind == "table",
		}
	}
	return object{
		"id": id, "type": kind, "title": p.title, "description": p.description, "datasource": source, "gridPos": position,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}}, "options": options, "targets": targets,
	}
}

func grid(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

// of puts the dashboard's choice into a query in place of each %s.
func of(choice, format string) string {
	count := 0
	for i := 0; i+1 < len(format); i++ {
		if format[i:i+2] == "%s" {
			count++
		}
	}
	choices := make([]any, count)
	for i := range choices {
		choices[i] = choice
	}
	return fmt.Sprintf(format, choices...)
}
