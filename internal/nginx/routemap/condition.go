package routemap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// source describes a text that a map makes from a request and compares with candidates. The text consists of a digit
// for each condition, the method if a candidate names a method, and the path. A digit is 1 if the request meets the
// condition. The path is the last part, and no other part contains a space. So one part of a request cannot look like
// another part.
type source struct {
	conditions []conf.Expression
	variables  map[routes.Pair][2]conf.Expression
	hasMethod  bool
}

// The positions of a pair's variables in source.variables.
const (
	asHeader = iota
	asArgument
)

// source returns the source for candidates, and adds the maps for their conditions.
func (m *builder) source(of []routes.Candidate) source {
	s := source{variables: map[routes.Pair][2]conf.Expression{}}
	add := func(p routes.Pair, as int, variable conf.Expression) {
		of := s.variables[p]
		of[as] = variable
		s.variables[p] = of
		if !slices.Contains(s.conditions, variable) {
			s.conditions = append(s.conditions, variable)
		}
	}
	for _, c := range of {
		s.hasMethod = s.hasMethod || c.Method != ""
		for _, h := range c.Headers {
			add(h, asHeader, m.condition(headerVariable(h.Name), headerPattern(h)))
		}
		for _, q := range c.Query {
			add(q, asArgument, m.condition("$args", argumentPattern(q)))
		}
	}
	return s
}

// text returns the source as the first argument of the directive map.
func (m *builder) text(s source) conf.Expression {
	method := ""
	if s.hasMethod {
		method = "$request_method "
	}
	return m.joined(s.conditions) + conf.Expression(method+"$uri")
}

// maxJoined is the maximum number of variables one after another in an argument.
const maxJoined = 100

// joins returns the number of maps that [builder.joined] adds for a number of variables.
func joins(variables int) (maps int) {
	for variables > maxJoined {
		variables = (variables + maxJoined - 1) / maxJoined
		maps += variables
	}
	return maps
}

// joined returns variables one after another. If there are too many for one argument, it adds maps that join some of
// them each.
func (m *builder) joined(variables []conf.Expression) conf.Expression {
	for len(variables) > maxJoined {
		var parts []conf.Expression
		for some := range slices.Chunk(variables, maxJoined) {
			m.joins++
			part := conf.Expression(fmt.Sprintf("$route_conditions_%d", m.joins))
			m.block = append(m.block, conf.Map("$uri", part, conf.D("default", m.joined(some))))
			parts = append(parts, part)
		}
		variables = parts
	}
	var text strings.Builder
	for _, v := range variables {
		text.WriteString(string(v))
	}
	return conf.Expression(text.String())
}

// expression returns the regular expression for the requests that meet a match.
func (s source) expression(match routes.Match) conf.Literal {
	var positions []int
	add := func(p routes.Pair, as int) {
		positions = append(positions, slices.Index(s.conditions, s.variables[p][as]))
	}
	for _, h := range match.Headers {
		add(h, asHeader)
	}
	for _, q := range match.Query {
		add(q, asArgument)
	}
	method := ""
	switch {
	case match.Method != "":
		method = quoted(match.Method) + " "
	case s.hasMethod:
		method = "[^ ]* "
	}
	return conf.Literal("~^" + digits(positions, len(s.conditions)) + method + pathPattern(match.Path) + `\z`)
}

// digits returns the regular expression for a number of digits, with the digit 1 at the given positions.
func digits(ones []int, number int) string {
	slices.Sort(ones)
	var pattern strings.Builder
	any := func(count int) {
		if count > 0 {
			fmt.Fprintf(&pattern, ".{%d}", count)
		}
	}
	next := 0
	for _, one := range slices.Compact(ones) {
		any(one - next)
		pattern.WriteByte('1')
		next = one + 1
	}
	any(number - next)
	return pattern.String()
}

// pathPattern returns the regular expression for a path.
func pathPattern(p routes.Path) string {
	if p.Exact {
		return quoted(p.Value)
	}
	return quoted(strings.TrimSuffix(p.Value, "/")) + "(?:/(?s:.)*)?"
}

// condition returns the variable for a condition. The variable is 1 if the value of the expression matches the regular
// expression, and 0 otherwise.
func (m *builder) condition(of conf.Expression, pattern string) conf.Expression {
	key := string(of) + " " + pattern
	if variable, ok := m.conditions[key]; ok {
		return variable
	}
	variable := conf.Expression(fmt.Sprintf("$route_condition_%d", len(m.conditions)))
	m.conditions[key] = variable
	m.block = append(m.block, conf.Map(of, variable,
		conf.D("default", conf.Literal("0")), conf.Row(conf.Literal(pattern), conf.Literal("1"))))
	return variable
}

// headerVariable returns nginx's variable for a header of the request.
func headerVariable(name string) conf.Expression {
	return conf.Expression("$http_" + strings.ToLower(strings.ReplaceAll(name, "-", "_")))
}

// headerPattern returns the regular expression for the value of a header.
func headerPattern(h routes.Pair) string { return "~^" + quoted(h.Value) + `\z` }

// argumentPattern returns the regular expression for queries in which the first argument with a given name has a given
// value. A client may encode any byte of the name and of the value. The API does not allow an empty value.
func argumentPattern(q routes.Pair) string {
	name := encoded(q.Name)
	return "~^(?:(?!" + name + `(?:[=&]|\z))[^&]*&)*` + name + "=" + encoded(q.Value) + `(?:&|\z)`
}

// encoded returns the regular expression for the encoded forms of a text in a query.
func encoded(text string) string {
	var pattern strings.Builder
	for _, b := range []byte(text) {
		forms := []string{"%" + hexDigits(b)}
		switch b {
		case ' ':
			forms = append(forms, "[+]")
		case '%': // it means itself if two hexadecimal digits do not follow
			forms = append(forms, "%(?![0-9A-Fa-f]{2})")
		case '+', '&': // these have a special meaning in a query
		default:
			forms = append(forms, quoted(string(b)))
		}
		pattern.WriteString("(?:" + strings.Join(forms, "|") + ")")
	}
	return pattern.String()
}

// hexDigits returns the regular expression for the two hexadecimal digits of a byte.
func hexDigits(b byte) string {
	var pattern strings.Builder
	for _, digit := range fmt.Sprintf("%02X", b) {
		if digit > '9' {
			fmt.Fprintf(&pattern, "[%c%c]", digit, digit-'A'+'a')
		} else {
			pattern.WriteRune(digit)
		}
	}
	return pattern.String()
}

// quoted returns the regular expression for a text. Every byte that may have a special meaning in PCRE or in nginx's
// syntax is written as its number.
func quoted(text string) string {
	var pattern strings.Builder
	for _, b := range []byte(text) {
		if isPlain(b) || b == '/' {
			pattern.WriteByte(b)
		} else {
			fmt.Fprintf(&pattern, `\x%02x`, b)
		}
	}
	return pattern.String()
}

// isPlain returns true for a byte that has no special meaning in a regular expression.
func isPlain(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}
