package main

import "github.com/cachenode/cachenode-operator/test/bench/result"

// preparationTable returns a table that shows two gains separately: the gain from the configuration and the gain from
// the preparation of the disks.
func (r *results) preparationTable() (string, error) {
	lines := [][]string{{"requests/s", "usual disks", "prepared disks"}}
	for _, of := range []struct{ label, result string }{
		{"64 KiB", "slow-64k-300"}, {"1 MiB", "slow-1m-300"},
	} {
		d, err := r.result(of.result)
		if err != nil {
			return "", err
		}
		for i, load := range loadNames(d) {
			cell := func(server string) string {
				return thousands(result.Median(figures(d, server, rate(i))))
			}
			label := of.label + ", " + load + ", "
			lines = append(lines,
				[]string{label + tableName(theArticle), cell(theArticle), cell(articlePrepared)},
				[]string{label + tableName(ownName), cell("cachenode-usual"), cell(ownName)})
		}
	}
	return markdown(lines), nil
}
