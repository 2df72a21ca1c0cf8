// Package output implements the flag --output of the plugin's verbs, and defines the exit codes of the plugin.
//
// It imports agentapi, which makes texts printable. New output formats and new exit codes belong here.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// The output formats for programs.
const (
	JSON = "json"
	YAML = "yaml"
)

// Flag is the flag --output. The value "" stands for the format for people.
type Flag struct {
	Value   string
	allowed []string
}

// Add adds the flag to a command. others are the formats that the verb supports besides json and yaml. usage
// describes them.
func Add(command *cobra.Command, usage string, others ...string) *Flag {
	f := &Flag{allowed: append([]string{JSON, YAML}, others...)}
	command.Flags().StringVarP(&f.Value, "output", "o", "", "json or yaml for programs"+usage)
	_ = command.RegisterFlagCompletionFunc("output", // fails only for a flag that does not exist
		cobra.FixedCompletions(f.allowed, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// Check returns an error for a format that the verb does not support.
func (f *Flag) Check() error {
	if f.Value == "" || slices.Contains(f.allowed, f.Value) {
		return nil
	}
	last := len(f.allowed) - 1
	return fmt.Errorf("--output is %q, want %s or %s", f.Value, strings.Join(f.allowed[:last], ", "), f.allowed[last])
}

// IsForPrograms returns true for json and yaml.
func (f *Flag) IsForPrograms() bool { return f.Value == JSON || f.Value == YAML }

// Write writes a value in the format for programs.
func (f *Flag) Write(out io.Writer, value any) error {
	if f.Value == YAML {
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// maxRemark is the maximum length of a remark in bytes.
const maxRemark = 4096

// Remark prints a line such as "warning: text". The text may contain words of others, for example of a team, so it
// leaves out what a terminal would interpret.
func Remark(out io.Writer, kind, text string) {
	_, _ = fmt.Fprintf(out, "%s: %s\n", kind, agentapi.Printable(text, maxRemark))
}

// Exit is the error that makes the plugin exit with a code, after all output was written.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit with %d", int(e)) }
