package cache

import "github.com/cachenode/cachenode-operator/internal/nginx/conf"

// location returns a location block. Its name begins with @, or is the beginning of a path.
func location(name string, block ...conf.Directive) conf.Directive {
	return conf.B("location", conf.Literals(name), block...)
}

// exactly returns the location block for exactly one path.
func exactly(path string, block ...conf.Directive) conf.Directive {
	return conf.B("location", conf.Literals("=", path), block...)
}

// ifSet returns a block whose directives run if a variable is neither empty nor 0.
func ifSet(variable conf.Expression, block ...conf.Directive) conf.Directive {
	return conf.B("if", []conf.Argument{"(" + variable + ")"}, block...)
}

// set returns a directive that sets a variable to a value.
func set(variable conf.Expression, value conf.Argument) conf.Directive {
	return conf.D("set", variable, value)
}

// setHeader makes a location send a header with its requests. A header with an empty value is left out.
func setHeader(name string, value conf.Argument) conf.Directive {
	return conf.D("proxy_set_header", conf.Literal(name), value)
}

// addHeader makes a location add a header to its responses, whatever their status. A header with an empty value is
// left out.
func addHeader(name string, value conf.Argument) conf.Directive {
	return conf.D("add_header", conf.Literal(name), value, conf.Literal("always"))
}
