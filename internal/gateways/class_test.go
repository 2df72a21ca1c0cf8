package gateways_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// TestSupportedVersion checks what a class says about the version of the Gateway API.
func TestSupportedVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.5.0": "True SupportedVersion", "v1.6.3": "True SupportedVersion", "v1.50.0": "False UnsupportedVersion",
		"v1.4.0": "False UnsupportedVersion", "": "Unknown VersionUnknown",
	} {
		status := gateways.ClassStatus(&gw.GatewayClass{}, nil, version)
		c := meta.FindStatusCondition(status.Conditions, "SupportedVersion")
		if got := string(c.Status) + " " + c.Reason; got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}
