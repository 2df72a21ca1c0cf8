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

// MaxArgument is the maximum length in bytes of an argument as [Write] writes it. nginx reads its configuration through
// a buffer of 4,096 bytes (NGX_CONF_BUFFER), into which each argument must fit together with what stands next to it.
const MaxArgument = 4000

// Length returns the length in bytes of an argument as [Write] writes it.
func Length(arg Argument) int { return len(quote(arg.text())) }

// Write returns the text of a configuration file. It returns the same bytes for equal trees. It returns an error and no
// text if a name cannot be the name of a directive, or if an argument cannot be written; see [Literal] and
// [MaxArgument].
func Write(block Block) (string, error) {
	var w writer
	w.block(block, "")
	if len(w.errs) > 0 {
		return "", errors.Join(w.errs...)
	}
	return string(w.text), nil
}

type writer struct {
	text []byte
	errs []error
}

func (w *writer) block(block Block, margin string) {
	for _, d := range block {
		if d.Comment != "" {
			for line := range strings.Lines(d.Comment) {
				w.add(margin, "# ", clean(line), "\n")
			}
		}
		w.add(margin)
		w.head(d)
		switch {
		case d.Block == nil:
			w.add(";\n")
		case len(d.Block) == 0:
			w.add(" { }\n")
		default:
			w.add(" {\n")
			if d.Rows {
				w.rows(d.Block, margin+indent)
			} else {
				w.block(d.Block, margin+indent)
			}
			w.add(margin, "}\n")
		}
	}
}

func (w *writer) add(parts ...string) {
	for _, part := range parts {
		w.text = append(w.text, part...)
	}
}

// rows writes simple directives side by side.
func (w *writer) rows(block Block, margin string) {
	w.add(margin)
	line := len(w.text) // the position at which the line's first directive begins
	for _, d := range block {
		if d.Block != nil || d.Comment != "" {
			w.errs = append(w.errs, fmt.Errorf("%s: only simple directives can stand in rows", d.Name))
		}
		begin := len(w.text)
		if begin > line {
			w.add(" ")
		}
		w.head(d)
		w.add(";")
		if begin > line && len(margin)+len(w.text)-line > rowWidth {
			word := string(w.text[begin+1:])
			w.text = w.text[:begin]
			w.add("\n", margin)
			line = len(w.text)
			w.add(word)
		}
	}
	w.add("\n")
}

// head writes the directive's name and arguments.
func (w *writer) head(d Directive) {
	args := d.Args
	switch {
	case d.isRow && len(args) == 2:
		w.argument("a row", args[0])
		args = args[1:]
	case !d.isRow && isWord(d.Name):
		w.add(d.Name)
	default:
		w.errs = append(w.errs, fmt.Errorf("%q is no directive's name", d.Name))
	}
	for _, arg := range args {
		w.add(" ")
		w.argument(d.Name, arg)
	}
}

func (w *writer) argument(of string, arg Argument) {
	if err := check(arg); err != nil {
		w.errs = append(w.errs, fmt.Errorf("%s: argument %.100q: %w", of, arg.text(), err))
	}
	w.add(quote(arg.text()))
}

func check(arg Argument) error {
	text := arg.text()
	if length := Length(arg); length > MaxArgument {
		return fmt.Errorf("takes %d bytes, and the maximum is %d", length, MaxArgument)
	}
	if isPlain(text) && (arg.expression() || strings.IndexByte(text, '$') < 0) {
		return nil
	}
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

// quote returns a text in a form that nginx's function ngx_conf_read_token reads back unchanged. It puts the text
// between double quotes, and puts a backslash before each quote and each backslash. A plain word gets no quotes.
func quote(text string) string {
	if isPlain(text) {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// isPlain returns true for text that nginx reads correctly without quotes. Braces, quotes, semicolons, backslashes,
// white space and the comment sign need quotes in some positions. Every byte that is not in plain is quoted.
func isPlain(text string) bool {
	if text == "" {
		return false
	}
	for i := range len(text) {
		if !plain[text[i]] {
			return false
		}
	}
	return true
}

// plain contains the bytes that need no quotes.
var plain = func() (table [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=%*$@,+?()!") {
		table[c] = true
	}
	return table
}()

// isWord returns true for the name of a directive, and for the first word of a line in a map or split_clients block.
func isWord(name string) bool { return isPlain(name) && name[0] != '$' && name[0] != '@' }

func clean(comment string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, comment)
}
