package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

var (
	errTooManyAliases = errors.New("too many aliases")
	errNoServer       = errors.New("no name server is known yet")
)

// exchange asks the name servers in order, several times, until one answers: with addresses, or that there are none.
func exchange(ctx context.Context, name string, servers []netip.AddrPort) (*dns.Msg, error) {
	err := errNoServer
	for range tries {
		for _, server := range servers {
			var answer *dns.Msg
			if answer, err = ask(ctx, name, server); err == nil {
				return answer, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
		}
	}
	return nil, err
}

// ask asks one name server, by UDP, and by TCP if the answer is too long for that. Like nginx, it sends no EDNS.
func ask(ctx context.Context, name string, server netip.AddrPort) (*dns.Msg, error) {
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, Timeout: tryTimeout, UDPSize: datagram}
		answer, _, err := client.ExchangeContext(ctx, question, server.String())
		if err != nil {
			return nil, err
		}
		if answer.Truncated && network == "udp" {
			continue
		}
		if answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError {
			return nil, fmt.Errorf("%s answers %s", server, dns.RcodeToString[answer.Rcode])
		}
		return answer, nil
	}
	return nil, errors.New("unreachable: TCP returns")
}
