package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// ownName is CacheNode's name in the results.
const ownName = "cachenode"

// names contains the servers of the first rows, in the order of the rows. The first string is the name in the results,
// and the second string is the name in tables. All other servers are variants, and their rows follow these rows.
var names = append([][2]string{
	{ownName, "**CacheNode**"},
	{"agent", "**CacheNode with its agent**"},
}, otherNames...)

// otherNames contains the names of the servers that are not CacheNode.
var otherNames = [][2]string{
	{plainNginx, "nginx without pools"},
	{theArticle, "the article's configuration"},
	{varnish, "Varnish"},
	{trafficServer, "Traffic Server"},
	{"varnish-malloc", "Varnish with objects in memory"},
}

// tableName returns the name that tables show for a server.
func tableName(server string) string {
	for _, name := range names {
		if name[0] == server {
			return name[1]
		}
	}
	return "`" + server + "`"
}

// table returns a table by its name.
func (r *results) table(name string) (string, error) {
	switch name {
	case "summary":
		return r.summary()
	case "gain":
		return r.gainTable()
	case "elsewhere":
		return r.elsewhereTable()
	case "preparation":
		return r.preparationTable()
	case "fleet-sizes":
		return r.fleetSizesTable()
	case "fleet":
		return r.fleetTable()
	case "goals":
		return r.goalTable()
	case "purge-goals":
		return r.purgeGoals()
	}
	if table, ok := purgeTables[name]; ok {
		return table(filepath.Join(r.folder, name+".json"))
	}
	d, err := r.result(name)
	if err != nil {
		return "", err
	}
	return conditions(name, d) + "\n\n" + rounds(d) + atRates(d), nil
}

// conditions returns the conditions of a result, in sentences.
func conditions(name string, d document) string {
	c := d.Result
	var loads []string
	for _, load := range loadNames(d) {
		loads = append(loads, fmt.Sprintf("%d connections for %s load", c.Connections[load], load))
	}
	return fmt.Sprintf("The caches contain %s objects of %s, on %s.\n"+
		"Each server has %d MiB of memory.\n"+
		"Clients open %s.\n"+
		"Each of the %d rounds measures each server for %g s, beginning with %s.\n"+
		"The figures were measured on %s at commit %s ([JSON](%s.json)).",
		thousands(float64(c.Objects)), bytes(c.Bytes), c.Disks, c.Memory, strings.Join(loads, " and "),
		c.Rounds, c.Seconds, c.Begins, d.Date[:10], d.Commit, name)
}

// loadNames returns the names of the loads in a result, in the order of the figures. Older results do not store this
// order. For these results, loadNames returns the names in reverse alphabetical order.
func loadNames(d document) []string {
	if len(d.Result.Loads) > 0 {
		return d.Result.Loads
	}
	var loads []string
	for load := range d.Result.Connections {
		loads = append(loads, load)
	}
	slices.Sort(loads)
	slices.Reverse(loads) // random goes before hot
	return loads
}

// rounds returns the table of a result. Its cells show the median of the rounds. Requests a second and ratios also
// show the lowest and the highest figure of a round.
func rounds(d document) string {
	header := []string{"server"}
	loads := loadNames(d)
	for _, load := range loads {
		header = append(header, load+", requests/s", "CacheNode's ratio", "p50 ms", "p99 ms")
	}
	if misses(d) {
		header = append(header, "sent to the origin")
	}
	lines := [][]string{append(header, "reads a hit", "ms CPU", "MiB")}
	for _, server := range servers(d) {
		line := []string{server[1]}
		for i := range loads {
			all := figures(d, server[0], rate(i))
			line = append(line,
				fmt.Sprintf("%s (%s-%s)", thousands(result.Median(all)), thousands(slices.Min(all)), thousands(slices.Max(all))),
				ratioText(against(d, server[0], i)),
				milliseconds(d, server[0], i, p50), milliseconds(d, server[0], i, p99))
		}
		middle := func(figure func(result.Sample) float64) float64 { return result.Median(figures(d, server[0], figure)) }
		if misses(d) {
			line = append(line, fmt.Sprintf("%.1f%%", 100*middle(toOrigin)))
		}
		lines = append(lines, append(line,
			fmt.Sprintf("%.2f", middle(func(s result.Sample) float64 { return s.ReadsPerHit })),
			fmt.Sprintf("%.3f", middle(func(s result.Sample) float64 { return s.CPU })),
			fmt.Sprintf("%.0f", middle(func(s result.Sample) float64 { return float64(s.Memory) }))))
	}
	return markdown(lines)
}

// misses returns true if, for any server and round, more than 1% of the requests went to the origin.
func misses(d document) bool {
	for server := range d.Result.Samples {
		if slices.Max(figures(d, server, toOrigin)) > 0.01 {
			return true
		}
	}
	return false
}

// toOrigin returns the share of the requests that went to the origin.
func toOrigin(s result.Sample) float64 {
	var requests int64
	for _, load := range s.Loads {
		requests += load.Requests
	}
	return float64(s.Origin) / float64(max(requests, 1))
}

// atRates returns the table of the measurements at fixed rates; "" if there are none.
func atRates(d document) string {
	first := d.Result.Samples[servers(d)[0][0]]
	if len(first) == 0 || len(first[0].AtRate) == 0 {
		return ""
	}
	header := []string{"at a fixed rate"}
	loads := loadNames(d)
	for _, at := range first[0].AtRate {
		for _, load := range loads {
			header = append(header, fmt.Sprintf("%s at %.0f%%, requests/s", load, at.Share*100), "p50 ms", "p99 ms")
		}
	}
	lines := [][]string{header}
	for _, server := range servers(d) {
		line := []string{server[1]}
		for i := range first[0].AtRate {
			for j := range loads {
				at := func(latency func(lab.Answers) float64) float64 {
					return result.Median(figures(d, server[0], func(s result.Sample) float64 {
						return latency(s.AtRate[i].Loads[j])
					}))
				}
				served := at(func(a lab.Answers) float64 { return a.PerSecond })
				line = append(line, thousands(served), short(at(p50)), short(at(p99)))
			}
		}
		lines = append(lines, line)
	}
	return "\n" + markdown(lines)
}

// servers returns the servers of a result, with their names in tables.
func servers(d document) (list [][2]string) {
	known := map[string]bool{}
	for _, name := range names {
		known[name[0]] = true
		if _, measured := d.Result.Samples[name[0]]; measured {
			list = append(list, name)
		}
	}
	var variants []string
	for server := range d.Result.Samples {
		if !known[server] {
			variants = append(variants, server)
		}
	}
	slices.Sort(variants)
	for _, v := range variants {
		list = append(list, [2]string{v, tableName(v)})
	}
	return list
}

// ratioText returns a ratio as a cell of a table. The cell is bold if CacheNode served fewer requests in every round.
// It begins with "=" if CacheNode served more requests in some rounds and fewer in others.
func ratioText(ratio result.Ratio, ok bool) string {
	switch {
	case !ok || ratio == (result.Ratio{Median: 1, Low: 1, High: 1}):
		return "–"
	case math.IsInf(ratio.Median, 1):
		return "no answer"
	}
	text := fmt.Sprintf("%s (%s-%s)", short(ratio.Median), short(ratio.Low), short(ratio.High))
	switch {
	case ratio.Tie():
		return "= " + text
	case ratio.Median < 1:
		return "**" + text + "**"
	}
	return text
}

// milliseconds returns the median of a latency over the rounds, for one load of a server. If the server answered the
// load in at most half of the rounds, it returns "no answer".
func milliseconds(d document, server string, load int, latency func(lab.Answers) float64) string {
	figure := func(s result.Sample) float64 { return latency(s.Loads[load]) }
	median, ok := result.Answered(d.Result.Samples[server], load, figure)
	if !ok {
		return "no answer"
	}
	return short(median)
}

func p50(a lab.Answers) float64 { return a.P50 }

func p99(a lab.Answers) float64 { return a.P99 }

// short returns a figure as text: with two decimals if it is below 2, with one decimal if it is below 10, and with no
// decimals otherwise.
func short(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "∞"
	case v >= 10:
		return thousands(v)
	case v >= 2:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// thousands returns a figure as text, without decimals and with commas between groups of three digits.
func thousands(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// bytes returns the size of an object as text, such as "64 KiB".
func bytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// markdown returns lines as a Markdown table. The first line is the header.
func markdown(lines [][]string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("--:|", len(line)-1) + "\n")
		}
	}
	return b.String()
}
