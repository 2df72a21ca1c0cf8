package agent

import (
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// TestDenied checks which addresses the resolver never gives to nginx.
func TestDenied(t *testing.T) {
	policy := agentapi.OriginPolicy{
		DeniedRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Namespaces: []string{"origins"},
	}
	text, err := policy.Text()
	if err != nil {
		t.Fatal(err)
	}
	single := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text + "/32")} }
	for name, tt := range map[string]struct {
		file, host, address string
		server, others      []netip.Prefix
		namespaces          []string
		fails               bool
	}{
		"an operator from before": {host: "10.96.0.1", server: single("10.96.0.1"), namespaces: []string{"shop", "*"}},
		"a policy":                {file: text, others: policy.DeniedRanges, namespaces: []string{"shop", "origins"}},
		"the API server by a name": {
			host: "api.example.com", address: "192.0.2.1", server: single("192.0.2.1"), namespaces: []string{"shop", "*"},
		},
		"a damaged policy": {file: "{", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", tt.host)
			t.Setenv("KUBERNETES_PORT_443_TCP_ADDR", tt.address)
			a := &conductor{Agent: &Agent{Paths: Paths{Config: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}}
			if tt.file != "" {
				write(t, filepath.Join(a.Paths.Config, naming.OriginPolicyKey), tt.file)
			}
			got, err := a.denied("shop")
			if (err != nil) != tt.fails {
				t.Fatal(err)
			}
			if tt.fails {
				return
			}
			equal := []cmp.Option{cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()}
			if diff := cmp.Diff(tt.others, got.Others, equal...); diff != "" {
				t.Errorf("for other names (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.namespaces, got.Namespaces); diff != "" {
				t.Errorf("namespaces (-want +got)\n%s", diff)
			}
			for _, prefix := range slices.Concat(validation.NoOrigin, ownAddresses(t), tt.server) {
				if !slices.Contains(got.Always, prefix) {
					t.Errorf("%s is not denied", prefix)
				}
			}
		})
	}
}

// ownAddresses returns the addresses of the machine, each as a range with one address.
func ownAddresses(t *testing.T) (own []netip.Prefix) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil || len(addresses) == 0 {
		t.Fatal(addresses, err)
	}
	for _, address := range addresses {
		ip, _, err := net.ParseCIDR(address.String())
		if err != nil {
			t.Fatal(err)
		}
		parsed, _ := netip.AddrFromSlice(ip)
		parsed = parsed.Unmap()
		own = append(own, netip.PrefixFrom(parsed, parsed.BitLen()))
	}
	return own
}
