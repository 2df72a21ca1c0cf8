package gateways_test

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// TestNotAllowed checks that the message names only the listener that the route names as its parent.
func TestNotAllowed(t *testing.T) {
	t.Parallel()
	s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP}, "+
		"{name: tcp, port: 443, protocol: TCP}]}\n---\nkind: HTTPRoute\nmetadata: {name: shop}\n"+
		"spec: {parentRefs: [{name: main, sectionName: tcp}]}")
	c := gateways.Decide(s).Parents[name("edge", "shop")][0].Conditions[0]
	if c.Reason != "NotAllowedByListeners" || !strings.Contains(c.Message, "(tcp)") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}
