package conf

import (
	"regexp"
	"slices"
	"strings"
)

// Scope returns a copy of a block in which every name that the block itself defines has a suffix. So a configuration
// can contain the same block twice with different values, although all servers in nginx share one name space. Names
// that are defined elsewhere stay the same.
//
// These names get the suffix: variables, log formats, upstreams, the zones of limits, and Unix sockets on which a
// server of the block listens. The suffix consists of letters, digits and underscores.
//
// The variables in the parameter others get the suffix too, although the block does not define them. So the copy uses a
// variable of this repository instead of nginx's own variable. For example, it uses $host with the suffix instead of
// $host.
func Scope(block Block, suffix string, others ...Expression) Block {
	s := scope{suffix: suffix, own: map[name]bool{}}
	for _, o := range others {
		s.own[name{"set", string(o[1:])}] = true
	}
	s.define(block)
	return s.block(block)
}

// name is a name together with its kind. The kind is the directive that defines the name. But the kind of all variables
// is "set", and the kind of all zones is "zone".
type name struct{ kind, name string }

type scope struct {
	suffix string
	own    map[name]bool
}

// defines contains the directives that define a variable. The value is the position of the argument with the variable's
// name.
var defines = map[string]int{"map": 1, "geo": 0, "split_clients": 1, "set": 0, "js_set": 0}

var (
	// variable matches $name and ${name}.
	variable = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)\})`)
	// capture matches the beginning of a named group of a regular expression, and also a reference to such a group. A
	// named group defines a variable.
	capture = regexp.MustCompile(`(\(\?<|\(\?&|\\k<)(\w+)`)
	// zone matches the name of a zone. url matches a URL up to the name of an upstream.
	zone = regexp.MustCompile(`^(zone=)(\w+)(.*)$`)
	url  = regexp.MustCompile(`^(https?://)(\w+)((?:[/$].*)?)$`)
	unix = regexp.MustCompile(`^(unix:.*)([.]sock)$`)
)

// define records the names that a block defines.
func (s scope) define(block Block) {
	for _, d := range block {
		if at, ok := defines[d.Name]; ok && at < len(d.Args) {
			for _, m := range variable.FindAllStringSubmatch(d.Args[at].text(), -1) {
				s.own[name{"set", m[1] + m[2]}] = true
			}
		}
		for i, arg := range d.Args {
			for _, m := range capture.FindAllStringSubmatch(arg.text(), -1) {
				s.own[name{"set", m[2]}] = true
			}
			switch {
			case i == 0 && (d.Name == "log_format" || d.Name == "upstream"), d.Name == "listen":
				s.own[name{d.Name, arg.text()}] = true
			case d.Name == "limit_req_zone", d.Name == "limit_conn_zone":
				if m := zone.FindStringSubmatch(arg.text()); m != nil {
					s.own[name{"zone", m[2]}] = true
				}
			}
		}
		s.define(d.Block)
	}
}

// block returns a copy of a block in which the block's own names have the suffix.
func (s scope) block(block Block) Block {
	if block == nil {
		return nil
	}
	copied := slices.Clone(block)
	for i, d := range copied {
		copied[i].Args, copied[i].Block = slices.Clone(d.Args), s.block(d.Block)
		for j, arg := range d.Args {
			switch arg := arg.(type) {
			case Literal:
				copied[i].Args[j] = Literal(s.names(d.Name, j, string(arg)))
			case Expression:
				copied[i].Args[j] = Expression(s.variables(s.names(d.Name, j, string(arg))))
			}
		}
	}
	return copied
}

// names returns an argument of a directive. If the argument contains a name of the block that is not a variable, the
// name gets the suffix.
func (s scope) names(directive string, at int, text string) string {
	parts := func(m []string, kind, of string) string {
		if m != nil && s.own[name{kind, of}] {
			return m[1] + m[2] + s.suffix + strings.Join(m[3:], "")
		}
		return text
	}
	switch directive {
	case "log_format", "upstream", "limit_conn":
		kind := strings.Replace(directive, "limit_conn", "zone", 1)
		if at == 0 {
			return parts([]string{"", "", text}, kind, text)
		}
	case "access_log":
		if at == 1 {
			return parts([]string{"", "", text}, "log_format", text)
		}
	case "limit_req", "limit_req_zone", "limit_conn_zone":
		if m := zone.FindStringSubmatch(text); m != nil {
			return parts(m, "zone", m[2])
		}
	case "listen", "server":
		if m := unix.FindStringSubmatch(text); m != nil && s.own[name{"listen", text}] {
			return m[1] + s.suffix + m[2]
		}
	default:
		if m := url.FindStringSubmatch(text); m != nil {
			return parts(m, "upstream", m[2])
		}
	}
	return text
}

// variables returns an expression in which the block's own variables have the suffix. Named groups of regular
// expressions also get the suffix.
func (s scope) variables(text string) string {
	rename := func(of string) string {
		if s.own[name{"set", of}] {
			return of + s.suffix
		}
		return of
	}
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if m[2] != "" {
			return "${" + rename(m[2]) + "}"
		}
		return "$" + rename(m[1])
	})
	return capture.ReplaceAllStringFunc(text, func(found string) string {
		m := capture.FindStringSubmatch(found)
		return m[1] + rename(m[2])
	})
}
