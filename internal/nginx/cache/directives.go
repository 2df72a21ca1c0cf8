package cache

import "github.com/cachenode/cachenode-operator/internal/nginx/conf"

// location returns the block where nginx goes on with a request: a name that begins with @, or the beginning of a path.
func location(name string, block ...conf.Directive) conf.Directive {
	return conf.B("location", conf.Literals(name), block...)
}

// exactly returns the location for one path.
func exactly(path string, block ...conf.Directive) conf.Directive {
	return conf.B("location", conf.Literals("=", path), block...)
}

// ifSet runs directives for requests in which a variable is neither empty nor 0.
func ifSet(variable conf.Expression, block ...conf.Directive) conf.Directive {
	return conf.B("if", []conf.Argument{"(" + variable + ")"}, block...)
}

// set gives a variable a value.
func set(variable conf.Expression, value conf.Argument) conf.Directive {
	return conf.D("set", variable, value)
}

// setHeader makes a location send a header with its requests; an empty one is left out.
func setHeader(name string, value conf.Argument) conf.Directive {
	return conf.D("proxy_set_header", conf.Literal(name), value)
}

// addHeader makes a location add a header to its responses, whatever their status; an empty one is left out.
func addHeader(name string, value conf.Argument) conf.Directive {
	return conf.D("add_header", conf.Literal(name), value, conf.Literal("always"))
}
