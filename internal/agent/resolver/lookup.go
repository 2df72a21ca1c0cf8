package resolver

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	// lookupTimeout limits a lookup, and tryTimeout one question to one name server.
	lookupTimeout = 5 * time.Second
	tryTimeout    = time.Second
	// tries is how often each name server is asked.
	tries = 2
	// maxAliases is how many aliases are followed that a name server leaves to us.
	maxAliases = 8
	// maxNames is how many names are remembered. nginx asks for those of its configuration.
	maxNames = 1024
)

// reply is what the name servers say of a name.
type reply struct {
	records []record
	expires time.Time
}

// record is an address and the name that it belongs to.
type record struct {
	owner   string
	address netip.Addr
}

// names remembers replies by name, at most maxNames.
type names map[string]reply

// add remembers a reply. If there is no room, it forgets what is over, or else everything.
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

// lookup returns what the name servers say of a name, or said a moment ago. Several questions for a name are one
// lookup. ok is false if none has answered after patience: the lookup goes on, and the next question finds its result.
func (r *Resolver) lookup(ctx context.Context, name string, c Config) (result reply, ok bool) {
	r.mutex.Lock()
	known, isKnown := r.names[name]
	r.mutex.Unlock()
	if isKnown && r.clock.Now().Before(known.expires) {
		return known, true
	}
	flight := r.flights.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		result, err := resolve(ctx, name, c.Servers, r.clock.Now)
		if err == nil {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.names.add(name, result, r.clock.Now())
		}
		return result, err
	})
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	select {
	case done := <-flight:
		if done.Err != nil {
			return reply{}, false
		}
		return done.Val.(reply), true //nolint:forcetypeassert // what the flight returns
	case <-waiting.Done():
		return reply{}, false
	}
}

// resolve asks the name servers for a name, and for the names that it is an alias for if they leave that to us.
func resolve(
	ctx context.Context, name string, servers []netip.AddrPort, now func() time.Time,
) (result reply, err error) {
	ttl := maxTTL
	for range maxAliases {
		answer, err := exchange(ctx, name, servers)
		if err != nil {
			return reply{}, err
		}
		records, alias, least := read(answer, name)
		ttl = min(ttl, least)
		if len(records) > 0 || alias == name {
			return reply{records: records, expires: now().Add(max(ttl, minTTL))}, nil
		}
		name = alias
	}
	return reply{}, errTooManyAliases
}

// read returns the addresses in an answer, the name at the end of its chain of aliases, and the least TTL.
func read(answer *dns.Msg, name string) (records []record, alias string, ttl time.Duration) {
	ttl = maxTTL
	aliases := map[string]string{}
	for _, rr := range answer.Answer {
		if cname, ok := rr.(*dns.CNAME); ok {
			aliases[canonical(cname.Hdr.Name)] = canonical(cname.Target)
			ttl = min(ttl, seconds(cname.Hdr.Ttl))
		}
	}
	alias = name
	for range aliases { // a chain is not longer, so a circle ends
		if next, ok := aliases[alias]; ok {
			alias = next
		}
	}
	for _, rr := range answer.Answer {
		a, ok := rr.(*dns.A)
		if !ok || canonical(a.Hdr.Name) != alias {
			continue
		}
		if address, ok := netip.AddrFromSlice(a.A.To4()); ok {
			records = append(records, record{owner: alias, address: address})
			ttl = min(ttl, seconds(a.Hdr.Ttl))
		}
	}
	slices.SortFunc(records, func(a, b record) int { return a.address.Compare(b.address) })
	return slices.Compact(records), alias, ttl
}

func seconds(ttl uint32) time.Duration { return time.Duration(ttl) * time.Second }
