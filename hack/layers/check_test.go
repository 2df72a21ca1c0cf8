package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const table = "text with `names`\n\n| packages | what is in them |\n|---|---|\n| `cmd`, `internal/a` | top |\n" +
	"| `internal/a/low`, `api` | with `code` |\n\nand `internal/none`, | but | no row |\n"

func TestCheck(t *testing.T) {
	t.Parallel()
	rows := layers(table)
	want := [][]string{{"cmd", "internal/a"}, {"internal/a/low", "api"}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Fatalf("rows (-want +got)\n%s", diff)
	}
	globs := []string{"**/internal/a/*.go", "!**/internal/a/b/**", "**/internal/a/low/**", "$test"}
	for name, tt := range map[string]struct {
		p    goPackage
		want string // the beginning of the problem
	}{
		"down":        {goPackage{"internal/a", []string{"internal/a/low", "api"}}, ""},
		"beside":      {goPackage{"cmd/x", []string{"internal/a"}}, ""},
		"up":          {goPackage{"internal/a/low/x", []string{"internal/a"}}, "internal/a/low/x: imports internal/a,"},
		"no layer":    {goPackage{"internal/b", nil}, "internal/b: is in no row"},
		"no rule":     {goPackage{"internal/a/b", nil}, "internal/a/b: no rule"},
		"not checked": {goPackage{"api", nil}, ""},
	} {
		got := strings.Join(check(rows, globs, []goPackage{tt.p}), "\n")
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
