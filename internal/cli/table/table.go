// Package table writes tables as kubectl does, with colours on a terminal only.
//
// It imports the API's types for the states that have a colour, and agentapi for the function that makes texts of pods
// safe to print. New colours and new kinds of cells belong here.
package table

import (
	"io"
	"os"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Table collects rows and writes them as columns.
type Table struct {
	writer  table.Writer
	colours bool
}

// New returns a table. state is the column, counted from 0, whose words are coloured on a terminal; -1 for none.
// There are no colours if the environment variable NO_COLOR is set (https://no-color.org).
func New(out io.Writer, state int, columns ...string) *Table {
	t := &Table{writer: table.NewWriter(), colours: IsTerminal(out) && os.Getenv("NO_COLOR") == ""}
	t.writer.SetOutputMirror(out)
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight, style.Box.MiddleVertical = "", "   ", ""
	style.Options = table.OptionsNoBordersAndSeparators
	t.writer.SetStyle(style)
	t.writer.SuppressTrailingSpaces()
	if t.colours && state >= 0 {
		t.writer.SetColumnConfigs([]table.ColumnConfig{{Number: state + 1, Transformer: colour}})
	}
	t.Row(columns...)
	return t
}

// maxCell is the maximum length of a cell, in bytes.
const maxCell = 512

// Row adds a row. It removes the characters that terminals interpret, because a part of the text comes from pods.
func (t *Table) Row(cells ...string) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = agentapi.Printable(c, maxCell)
	}
	t.writer.AppendRow(row)
}

// Write writes all rows.
func (t *Table) Write() { t.writer.Render() }

// colour colours a state: red if it needs attention, and green if it does not.
func colour(value any) string {
	word, _ := value.(string)
	switch word {
	case string(v1alpha1.DiskHealthy):
		return text.FgGreen.Sprint(word)
	case "STATE", "-":
		return word
	}
	return text.FgRed.Sprint(word)
}

// IsTerminal returns true if out is a terminal, which means that a person reads the output.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
