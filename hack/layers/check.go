package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// layers returns the rows of the table of packages in page, the highest layer first. A row contains the names of the
// packages of a layer.
func layers(page string) (rows [][]string) {
	_, table, _ := strings.Cut(page, "\n| packages |")
	_, table, _ = strings.Cut(table, "|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || cells[0] != "" {
			break
		}
		var row []string
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			row = append(row, found[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// layerOf returns the index of the row that names a package. If no row names the package, layerOf uses the row of the
// nearest folder above the package. The result is -1 if there is no such row.
func layerOf(rows [][]string, name string) int {
	for {
		if i := slices.IndexFunc(rows, func(row []string) bool { return slices.Contains(row, name) }); i >= 0 {
			return i
		}
		slash := strings.LastIndexByte(name, '/')
		if slash < 0 {
			return -1
		}
		name = name[:slash]
	}
}

// check returns a description of each package that breaks a rule: see the comment on the command.
func check(rows [][]string, globs []string, packages []goPackage) (problems []string) {
	for _, p := range packages {
		layer := layerOf(rows, p.name)
		if layer < 0 {
			problems = append(problems, fmt.Sprintf("%s: is in no row of %s: add it to the table", p.name, page))
			continue
		}
		if strings.HasPrefix(p.name, "internal/") && !slices.ContainsFunc(globs, p.isIn) {
			problems = append(problems, fmt.Sprintf("%s: no rule of depguard is about it: add it to one in %s", p.name, config))
		}
		for _, other := range p.imports {
			if above := layerOf(rows, other); above >= 0 && above < layer {
				problems = append(problems, fmt.Sprintf("%s: imports %s, which is in a layer above", p.name, other))
			}
		}
	}
	return problems
}

// isIn returns true if a glob of depguard matches the files of the package.
func (p goPackage) isIn(glob string) bool {
	folder, isGlob := strings.CutPrefix(glob, "**/")
	if below, ok := strings.CutSuffix(folder, "/**"); ok {
		return isGlob && (p.name == below || strings.HasPrefix(p.name, below+"/"))
	}
	return isGlob && folder == p.name+"/*.go"
}
