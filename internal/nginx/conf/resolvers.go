package conf

import (
	"fmt"
	"net/netip"
	"strings"
)

// Resolvers returns the addresses of DNS servers in the form of nginx's directive resolver. Older agents, which have
// no resolver of their own, render the addresses in this form. Newer agents read the same form.
func Resolvers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("no DNS server")
	}
	addresses := make([]string, len(servers))
	for i, s := range servers {
		address, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		addresses[i] = address.WithZone("").String()
		if address.Is6() {
			addresses[i] = "[" + addresses[i] + "]"
		}
	}
	return addresses, nil
}
