// Command page writes the tables of the benchmarks' pages, and the charts summary.svg and purge.svg, from the
// results.
//
//	page FOLDER [PAGE...]
//
// FOLDER contains the results. The command fills in the pages in FOLDER, and each PAGE. A page contains a marker
// before each table and another marker after the table:
//
//	<!-- table fast-64k-random -->
//	<!-- end -->
//
// The command replaces the text between the two markers. The word after "table" is the name of a result in FOLDER,
// without ".json", or the name of a table that combines several results. An unknown name, a marker without its end,
// and a result that no table shows are errors.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: page FOLDER [PAGE...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func run(folder string, others ...string) error {
	results, err := read(folder)
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return err
	}
	for _, page := range append(pages, others...) {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		filled, err := results.fill(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(page), err)
		}
		if filled == string(text) {
			continue
		}
		if err := os.WriteFile(page, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	if unused := results.unused(); len(unused) > 0 {
		return fmt.Errorf("no table shows %s: delete the results, or add tables", strings.Join(unused, ", "))
	}
	if err := results.purgeChart(filepath.Join(folder, "purge.svg")); err != nil {
		return err
	}
	return results.chart(filepath.Join(folder, "summary.svg"))
}

var (
	block  = regexp.MustCompile(`(?s)(<!-- table ([a-z0-9-]+) -->\n)(.*?)(<!-- end -->)`)
	marker = regexp.MustCompile(`<!-- (table [^ ]*|end) -->`)
)

// fill replaces the tables in a page.
func (r *results) fill(page string) (string, error) {
	var errs []error
	filled := block.ReplaceAllStringFunc(page, func(whole string) string {
		match := block.FindStringSubmatch(whole)
		if strings.Contains(match[3], "<!-- table ") {
			errs = append(errs, fmt.Errorf("table %s has no end", match[2]))
		}
		table, err := r.table(match[2])
		if err != nil {
			errs = append(errs, err)
		}
		return match[1] + "\n" + table + "\n" + match[4]
	})
	if markers, blocks := len(marker.FindAllString(page, -1)), len(block.FindAllString(page, -1)); markers != 2*blocks {
		errs = append(errs, fmt.Errorf("%d markers do not make pairs of <!-- table NAME --> and <!-- end -->", markers))
	}
	return filled, errors.Join(errs...)
}

// unused returns the results that no table shows.
func (r *results) unused() []string {
	var names []string
	for name := range r.byName {
		if !r.shown[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
