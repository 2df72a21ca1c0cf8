package validation

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources returns the Go files of a package, without its tests.
func sources(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// TestSettingsAreNamedAsInTheChart checks the messages that name a flag of the operator. Each of these messages must
// also name the chart's value that sets the flag, because most users set values and not flags.
func TestSettingsAreNamedAsInTheChart(t *testing.T) {
	t.Parallel()
	deployment, err := os.ReadFile("../../charts/cachenode-operator/templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flag, named := regexp.MustCompile(`operator's (?:flag )?--[a-z-]+`),
		regexp.MustCompile(`chart's (\w+)(?:,| \()(?: ?the )operator's (--[a-z-]+)`)
	flags := 0
	for _, path := range append(sources(t, "."), sources(t, "../storage")...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if all := flag.FindAllString(string(text), -1); len(all) != len(found) {
			t.Errorf("%s: the flags %q, and with the chart's value %q", path, all, found)
		}
		for _, f := range found {
			flags++
			set := false
			for line := range strings.Lines(string(deployment)) {
				set = set || (strings.Contains(line, "- "+f[2]+"=") && strings.Contains(line, ".Values."+f[1]))
			}
			if !set {
				t.Errorf("%s: the chart does not set %s by its value %s", path, f[2], f[1])
			}
		}
	}
	if flags < 12 {
		t.Errorf("%d flags are named", flags)
	}
}
