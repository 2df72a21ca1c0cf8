package main

import (
	"fmt"
	"maps"
	"slices"
)

// place has the results of one machine that is not the one of the page's tables, by name.
type place map[string]document

// title returns when a place was measured, and on what.
func (p place) title() string {
	first := p[slices.Min(slices.Collect(maps.Keys(p)))]
	title := fmt.Sprintf("%s, %d rounds", first.Date[:10], first.Result.Rounds)
	if first.Processor != "" {
		title += ", " + first.Processor
	}
	return title
}

// elsewhereTable returns how the ratios of the first page came out on other machines, and here.
func (r *results) elsewhereTable() (string, error) {
	header := []string{"disks, objects, load", "other server", "the run in the other tables"}
	for _, p := range r.elsewhere {
		header = append(header, p.title())
	}
	lines := [][]string{header}
	for _, row := range append(slices.Clone(rows), gainRows[len(gainRows)-1]) {
		here, err := r.result(row.result)
		if err != nil {
			return "", err
		}
		for _, server := range []string{plainNginx, trafficServer} {
			line := []string{row.label, tableName(server), ratioText(against(here, server, row.load))}
			measured := false
			for _, p := range r.elsewhere {
				ratio, ok := against(p[row.result], server, row.load)
				measured = measured || ok
				line = append(line, ratioText(ratio, ok))
			}
			if measured {
				lines = append(lines, line)
			}
		}
	}
	return markdown(lines), nil
}
