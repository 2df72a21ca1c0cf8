package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	// lookupTimeout limits a lookup.
	lookupTimeout = 5 * time.Second
	// lateTTL is the shortest time for which the result of a slow lookup is kept. A lookup is slow if it took
	// pace.patience or longer. nginx asks again only after its resolver_timeout. Without the kept result, nginx would
	// have to wait for a whole lookup again.
	lateTTL = 5 * time.Second
	// maxAliases is the largest number of aliases that are followed.
	maxAliases = 8
	// maxAddresses is the largest number of addresses of a name that are used. This many addresses fit into a datagram
	// to nginx, even with the longest name.
	maxAddresses = 230
	// maxNames is the largest number of names whose replies are stored. nginx asks for the names in its configuration.
	// This is twice the number of backends that routes may have (package gateways), because edits may replace them.
	maxNames = 8192
)

// reply is the answer of the name servers for a name.
type reply struct {
	// chain begins with the requested name. If this name is an alias, the names to which it leads follow. The addresses
	// belong to the last name.
	chain     []string
	addresses []netip.Addr
	expires   time.Time
}

// names stores replies by name, at most maxNames of them.
type names map[string]reply

// add stores a reply. If there is no room, it first removes the expired replies. If there is still no room, it
// removes all replies.
func (n names) add(name string, r reply, now time.Time) {
	if len(n) >= maxNames {
		for name, r := range n {
			if !now.Before(r.expires) {
				delete(n, name)
			}
		}
	}
	if len(n) >= maxNames {
		clear(n)
	}
	n[name] = r
}

// lookup returns the answer of the name servers for a name, or a recent answer that has not expired. Several queries
// for a name at the same time share one lookup. ok is false if no name server has answered in time. The result is
// then the last known answer. The lookup continues, and the next query gets its result.
func (r *Resolver) lookup(ctx context.Context, name string, c Config) (result reply, ok bool) {
	begun := r.clock.Now()
	r.mutex.Lock()
	known, isKnown := r.names[name]
	r.mutex.Unlock()
	if !isKnown {
		known.chain = []string{name}
	}
	if begun.Before(known.expires) {
		return known, true
	}
	flight := r.flights.DoChan(fmt.Sprint(name, c.Servers), func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		result, ttl, err := r.resolve(ctx, name, c.Servers)
		if err != nil {
			return result, err
		}
		now := r.clock.Now()
		if now.Sub(begun) >= r.pace.patience {
			ttl = max(ttl, lateTTL)
		}
		result.expires = now.Add(ttl)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.names.add(name, result, now)
		return result, nil
	})
	waiting, stop := context.WithTimeout(ctx, r.pace.patience)
	defer stop()
	select {
	case done := <-flight:
		if done.Err != nil {
			return known, false
		}
		return done.Val.(reply), true //nolint:forcetypeassert // what the flight returns
	case <-waiting.Done():
		return known, false
	}
}

// resolve asks the name servers for a name. If the name is an alias and their answer does not contain the addresses,
// resolve also asks for the names to which the alias leads. ttl is how long the result is valid.
func (r *Resolver) resolve(
	ctx context.Context, name string, servers []netip.AddrPort,
) (result reply, ttl time.Duration, err error) {
	result.chain, ttl = []string{name}, maxTTL
	for {
		answer, err := r.exchange(ctx, result.chain[len(result.chain)-1], servers)
		if err != nil {
			return result, 0, err
		}
		before := len(result.chain)
		least, err := result.read(answer)
		if err != nil {
			return result, 0, err
		}
		ttl = max(min(ttl, least), minTTL)
		// NXDOMAIN applies to the last name of the chain (RFC 6604).
		if len(result.addresses) > 0 || len(result.chain) == before || answer.Rcode == dns.RcodeNameError {
			return result, ttl, nil
		}
	}
}

var (
	errTooManyAliases = errors.New("too many aliases, or a circle of them")
	errNoData         = errors.New("a record contains no address")
	errOtherOwners    = errors.New("the name server answers for other names")
)

// read begins with the last name of the chain and follows the aliases in an answer. It appends the names to the
// chain, stores the addresses of the final name, and returns the smallest TTL.
func (r *reply) read(answer *dns.Msg) (ttl time.Duration, err error) {
	ttl = maxTTL
	aliases, addresses := map[string]string{}, map[string][]netip.Addr{}
	for _, rr := range answer.Answer {
		if rr.Header().Class != dns.ClassINET {
			continue
		}
		owner := canonical(rr.Header().Name)
		switch record := rr.(type) {
		case *dns.CNAME:
			aliases[owner] = canonical(record.Target)
		case *dns.A:
			address, ok := netip.AddrFromSlice(record.A.To4())
			if !ok { // a record without data, as in a dynamic update (RFC 2136)
				return 0, errNoData
			}
			addresses[owner] = append(addresses[owner], address)
		default:
			continue
		}
		ttl = min(ttl, time.Duration(rr.Header().Ttl)*time.Second)
	}
	for {
		last := r.chain[len(r.chain)-1]
		next, ok := aliases[last]
		if !ok {
			break
		}
		if r.chain = append(r.chain, next); len(r.chain) > maxAliases {
			return 0, errTooManyAliases
		}
	}
	list := addresses[r.chain[len(r.chain)-1]]
	if len(list) == 0 && len(addresses) > 0 {
		return 0, errOtherOwners
	}
	slices.SortFunc(list, netip.Addr.Compare)
	list = slices.Compact(list)
	r.addresses = list[:min(len(list), maxAddresses)]
	return ttl, nil
}
