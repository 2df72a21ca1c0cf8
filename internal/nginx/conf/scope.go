package conf

import (
	"regexp"
	"slices"
)

// Scope returns a copy of a block in which every variable that the block itself defines has a suffix. So a
// configuration can contain the same block twice, with different values: nginx has one name space for the variables of
// all servers. Variables that are defined elsewhere keep their names.
//
// The suffix is part of a variable's name: letters, digits and underscores.
func Scope(block Block, suffix string) Block {
	own := map[string]bool{}
	definitions(block, own)
	return scoped(block, func(name string) string {
		if own[name] {
			return name + suffix
		}
		return name
	})
}

// defines is the position of the argument that names the variable that a directive defines.
var defines = map[string]int{"map": 1, "geo": 0, "split_clients": 1, "set": 0, "js_set": 0}

var (
	// variable matches $name and ${name}.
	variable = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)\})`)
	// capture matches the beginning of a named group of a regular expression, which defines a variable.
	capture = regexp.MustCompile(`\(\?<(\w+)>`)
)

// definitions adds the names of the variables that a block defines.
func definitions(block Block, names map[string]bool) {
	for _, d := range block {
		if at, ok := defines[d.Name]; ok && at < len(d.Args) {
			for _, m := range variable.FindAllStringSubmatch(d.Args[at].text(), -1) {
				names[m[1]+m[2]] = true
			}
		}
		for _, arg := range d.Args {
			if !arg.expression() {
				continue
			}
			for _, m := range capture.FindAllStringSubmatch(arg.text(), -1) {
				names[m[1]] = true
			}
		}
		definitions(d.Block, names)
	}
}

// scoped returns a copy of a block with other names of variables.
func scoped(block Block, rename func(string) string) Block {
	if block == nil {
		return nil
	}
	copied := slices.Clone(block)
	for i, d := range copied {
		args := slices.Clone(d.Args)
		for j, arg := range args {
			if e, ok := arg.(Expression); ok {
				args[j] = e.scoped(rename)
			}
		}
		copied[i].Args, copied[i].Block = args, scoped(d.Block, rename)
	}
	return copied
}

// scoped returns the expression with other names of variables.
func (e Expression) scoped(rename func(string) string) Expression {
	text := variable.ReplaceAllStringFunc(string(e), func(found string) string {
		m := variable.FindStringSubmatch(found)
		if m[2] != "" {
			return "${" + rename(m[2]) + "}"
		}
		return "$" + rename(m[1])
	})
	return Expression(capture.ReplaceAllStringFunc(text, func(found string) string {
		return "(?<" + rename(capture.FindStringSubmatch(found)[1]) + ">"
	}))
}
