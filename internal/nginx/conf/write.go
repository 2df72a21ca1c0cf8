package conf

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	indent   = "    "
	rowWidth = 120
)

// Write writes a configuration file. Equal trees give equal bytes. It returns an error, and no text, for a name that is
// no directive's and for an argument that cannot be written, see [Literal].
func Write(block Block) (string, error) {
	var w writer
	w.block(block, 0)
	if len(w.errs) > 0 {
		return "", errors.Join(w.errs...)
	}
	return w.String(), nil
}

type writer struct {
	strings.Builder
	errs []error
}

func (w *writer) block(block Block, depth int) {
	margin := strings.Repeat(indent, depth)
	for _, d := range block {
		if d.Comment != "" {
			for line := range strings.Lines(d.Comment) {
				w.line(margin, "# ", clean(line))
			}
		}
		head := margin + w.head(d)
		switch {
		case d.Block == nil:
			w.line(head, ";")
		case len(d.Block) == 0:
			w.line(head, " { }")
		default:
			w.line(head, " {")
			if d.Rows {
				w.rows(d.Block, margin+indent)
			} else {
				w.block(d.Block, depth+1)
			}
			w.line(margin, "}")
		}
	}
}

func (w *writer) line(parts ...string) {
	for _, part := range append(parts, "\n") {
		_, _ = w.WriteString(part) // a strings.Builder never fails
	}
}

// rows writes simple directives side by side.
func (w *writer) rows(block Block, margin string) {
	line := margin
	for _, d := range block {
		text := w.head(d) + ";"
		if d.Block != nil || d.Comment != "" {
			w.errs = append(w.errs, fmt.Errorf("%s: only simple directives can stand in rows", d.Name))
		}
		if len(line) > len(margin) && len(line)+1+len(text) > rowWidth {
			w.line(line)
			line = margin
		}
		if len(line) > len(margin) {
			line += " "
		}
		line += text
	}
	w.line(line)
}

// head is the directive's name and arguments.
func (w *writer) head(d Directive) string {
	if !isWord(d.Name) {
		w.errs = append(w.errs, fmt.Errorf("%q is no directive's name", d.Name))
	}
	words := []string{d.Name}
	for _, arg := range d.Args {
		if err := check(arg); err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s: argument %q: %w", d.Name, arg.text(), err))
		}
		words = append(words, quote(arg.text()))
	}
	return strings.Join(words, " ")
}

func check(arg Argument) error {
	text := arg.text()
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
		return fmt.Errorf("has the control character %q", text[i])
	}
	if !arg.expression() && strings.ContainsRune(text, '$') {
		return errors.New(`has a "$", which nginx could take for a variable`)
	}
	return nil
}

// quote follows ngx_conf_read_token: between double quotes a backslash escapes a quote or a backslash and nothing else is
// special. A word of harmless characters goes without quotes.
func quote(text string) string {
	if isPlain(text) {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// isPlain is true for text that nginx reads back unquoted. Braces, quotes, semicolons, backslashes, white space and the
// comment sign need quotes in some position; what is not listed here is quoted.
func isPlain(text string) bool {
	if text == "" {
		return false
	}
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case strings.ContainsRune("_-./:=%*$@,+?", r):
		default:
			return false
		}
	}
	return true
}

// isWord is true for the name of a directive, and for the first word of a line in a map or split_clients block.
func isWord(name string) bool { return isPlain(name) && name[0] != '$' && name[0] != '@' }

func clean(comment string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, comment)
}
