package output

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestFlag(t *testing.T) {
	t.Parallel()
	value := map[string]string{"a": "b & c"}
	for name, tt := range map[string]struct{ form, want, problem string }{
		"json":    {"json", "{\n  \"a\": \"b & c\"\n}\n", ""},
		"yaml":    {"yaml", "a: b & c\n", ""},
		"wide":    {"wide", "", ""},
		"unknown": {"xml", "", `--output is "xml", want json, yaml or wide`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := &cobra.Command{}
			f := Add(command, "", "wide")
			if err := command.ParseFlags([]string{"-o", tt.form}); err != nil {
				t.Fatal(err)
			}
			if err := f.Check(); (err == nil) != (tt.problem == "") || (err != nil && err.Error() != tt.problem) {
				t.Fatalf("Check says %v, want %q", err, tt.problem)
			}
			if f.IsForPrograms() != (tt.want != "") {
				t.Errorf("for programs: %t", f.IsForPrograms())
			}
			if tt.want == "" {
				return
			}
			var out strings.Builder
			if err := f.Write(&out, value); err != nil || out.String() != tt.want {
				t.Errorf("error %v, output %q, want %q", err, out.String(), tt.want)
			}
		})
	}
}

// TestRemark checks that the words of others cannot change what a terminal shows, or look like a line of their own.
func TestRemark(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	Remark(&out, "note", "backend \"x\x1b[2J\x1b]0;owned\a\nRoute: team/fine\"")
	if want := "note: backend \"x[2J]0;owned Route: team/fine\"\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}
