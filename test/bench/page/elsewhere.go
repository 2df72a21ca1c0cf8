package main

import (
	"fmt"
	"maps"
	"slices"
)

// place contains the results of one later run, on the same or on another machine, by the names of the cases. Only the
// table that elsewhereTable returns shows these results.
type place map[string]document

// title returns the header of a column: the day of the measurement, the number of rounds and, if it is known, the
// processor.
func (p place) title() string {
	first := p[slices.Min(slices.Collect(maps.Keys(p)))]
	title := fmt.Sprintf("%s, %d rounds", first.Date[:10], first.Result.Rounds)
	if first.Processor != "" {
		title += ", " + first.Processor
	}
	return title
}

// elsewhereTable returns the table that compares the ratios in the table of the first page with the ratios of later
// runs.
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
