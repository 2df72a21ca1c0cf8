// Package conf implements nginx's configuration syntax and nothing else: a tree of directives, and the only writer
// that quotes arguments.
//
// An argument is either a [Literal] or an [Expression]. In a literal, no character has a special meaning. In an
// expression, nginx expands variables. In a directive that accepts variables, nginx expands $name even inside quotes,
// so a literal cannot contain a dollar sign. Text from users is always a literal. Expressions come from this
// repository's code only.
//
// The package imports no other package of the project. A new kind of argument needs its own type with its own quoting.
// The fuzz tests must cover this quoting.
package conf

// Directive is a name with arguments and, for a block directive, the directives inside.
type Directive struct {
	Name string
	Args []Argument
	// Block is nil for a simple directive; an empty Block is written as "{ }".
	Block Block
	// Comment goes on a line of its own above the directive.
	Comment string
	// Rows is true if several directives of the block are written on one line. This is for split_clients, whose block has
	// hundreds of ranges.
	Rows bool
	// isRow is true for a row of a map, which has no name.
	isRow bool
}

// Block is a list of directives in the order in which they are written.
type Block []Directive

// Argument is a [Literal] or an [Expression].
type Argument interface {
	text() string
	expression() bool
}

// Literal is an argument that nginx uses unchanged. It must be valid UTF-8 without control characters and without "$".
type Literal string

// Expression is an argument in which nginx expands variables. Never build an Expression from a user's text.
type Expression string

func (l Literal) text() string        { return string(l) }
func (l Literal) expression() bool    { return false }
func (e Expression) text() string     { return string(e) }
func (e Expression) expression() bool { return true }

// D returns a simple directive.
func D(name string, args ...Argument) Directive {
	return Directive{Name: name, Args: args}
}

// Row returns a row of a map. Its key can be any argument, not only a plain word.
func Row(key, value Argument) Directive {
	return Directive{Args: []Argument{key, value}, isRow: true}
}

// B returns a block directive.
func B(name string, args []Argument, block ...Directive) Directive {
	if block == nil {
		block = Block{}
	}
	return Directive{Name: name, Args: args, Block: block}
}

// WithComment returns the directive with a comment before it.
func (d Directive) WithComment(text string) Directive {
	d.Comment = text
	return d
}

// Map returns nginx's directive map: variable gets the value of the row whose key matches source.
func Map(source, variable Expression, rows ...Directive) Directive {
	return B("map", []Argument{source, variable}, rows...)
}

// Literals turns strings into arguments.
func Literals(values ...string) []Argument {
	args := make([]Argument, len(values))
	for i, v := range values {
		args[i] = Literal(v)
	}
	return args
}

// OnOff returns the argument of a directive that takes on or off.
func OnOff(on bool) Argument {
	if on {
		return Literal("on")
	}
	return Literal("off")
}
