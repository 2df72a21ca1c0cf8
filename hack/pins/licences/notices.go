package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal matches the names of files whose text must be distributed with a program: licences, and the notices that
// Apache-2.0 requires.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)[^/]*$`)

// notices writes the legal texts of Go's standard library and runtime, and of all modules.
func notices(w io.Writer, modules map[string]module) error {
	fmt.Fprintln(w, "The programs of CacheNode are licensed under Apache-2.0. They contain the following software.")
	environment, err := exec.Command("go", "env", "GOVERSION", "GOROOT").Output()
	if err != nil {
		return err
	}
	version, root, _ := strings.Cut(strings.TrimSpace(string(environment)), "\n")
	goroot := module{Path: "Go, its library and runtime", Version: version, Dir: root}
	for _, m := range slices.Concat([]module{goroot}, slices.SortedFunc(maps.Values(modules), byPath)) {
		texts, err := legalTexts(m.Dir)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			return fmt.Errorf("%s %s has no text of a licence in %s", m.Path, m.Version, m.Dir)
		}
		fmt.Fprintf(w, "\n%s\n%s %s\n", strings.Repeat("=", 80), m.Path, m.Version)
		for _, text := range texts {
			fmt.Fprintf(w, "%s\n%s", strings.Repeat("-", 80), text)
		}
	}
	return nil
}

func byPath(a, b module) int { return cmp.Compare(a.Path, b.Path) }

// legalTexts returns the contents of the files in a folder whose names match legal, sorted by name.
func legalTexts(dir string) (texts []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !legal.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimRight(string(text), "\n")+"\n")
	}
	return texts, nil
}
