package routemap

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// maxDigits is the maximum length of the part of a regular expression that compares the conditions of a match: 16
// headers and 16 arguments (Gateway API, HTTPRouteMatch), each with the digits between them and the next one.
const maxDigits = 32 * len("1.{00000}")

// Check returns an error if a part of a match is too long for nginx's configuration. The error begins with the name of
// the part in an HTTPRouteMatch.
func Check(m routes.Match) error {
	check := func(part string, pattern string, most int) error {
		if length := conf.Length(conf.Literal(pattern)); length > most {
			return fmt.Errorf("%s: is too long: it would take %d bytes in the configuration of nginx, and %d is the maximum",
				part, length, most)
		}
		return nil
	}
	method := "~^" + quoted(m.Method) + ` \z`
	if err := check("path.value", method+pathPattern(m.Path), conf.MaxArgument-maxDigits); err != nil {
		return err
	}
	for _, h := range m.Headers {
		if err := check(fmt.Sprintf("headers: %.60q", h.Name), headerPattern(h), conf.MaxArgument); err != nil {
			return err
		}
	}
	for _, q := range m.Query {
		if err := check(fmt.Sprintf("queryParams: %.60q", q.Name), argumentPattern(q), conf.MaxArgument); err != nil {
			return err
		}
	}
	return nil
}
