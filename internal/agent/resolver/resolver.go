// Package resolver implements the DNS server that nginx asks, on loopback. It gets the addresses of the CacheNode's
// pods from the operator, and asks the name servers for all other names. If a name server returns an address that no
// origin may have, the resolver leaves this address out of its answer.
//
// nginx keeps the addresses of an upstream's server when the answer is SERVFAIL, and drops them when it is NXDOMAIN or
// empty. The resolver therefore answers NXDOMAIN in two cases only. Either a name server says that the name or its
// addresses do not exist, or all addresses of the name are denied.
//
// It imports agentapi only. A new source of addresses goes into the method find.
package resolver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

const (
	// datagram is the largest number of bytes that nginx reads of an answer over UDP. nginx does not announce this size
	// by EDNS, so it is fixed here.
	datagram = 4096
	// podTTL is how long nginx keeps the address of a pod. nginx asks again one second later.
	podTTL = time.Second
	// minTTL and maxTTL limit the TTL that a name server returns.
	minTTL, maxTTL = time.Second, 10 * time.Second
)

// Config defines which name servers the resolver asks, and which addresses it returns.
type Config struct {
	// Servers are the name servers, in the order in which they are asked.
	Servers []netip.AddrPort
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string
	// PodDomain is the domain of the CacheNode's pods.
	PodDomain string
	Denied    Denied
	// Backends are the names of the Services to which routes lead. These Services may be in any namespace, because the
	// operator has checked that the owner of the route may refer to the Service. A name that is only an alias of such a
	// Service gets no additional rights.
	Backends map[string]bool
	// FormerFor is the time for which a name stays a backend after it is no longer one: old workers of nginx may still
	// send requests to it, for example for the next slices of a download.
	FormerFor time.Duration
}

// Resolver answers questions for addresses (A). It is safe for concurrent use.
type Resolver struct {
	log   *slog.Logger
	clock clock.PassiveClock
	// counted is called with the result of each answer.
	counted func(Result)
	pace    pace

	flights singleflight.Group

	mutex  sync.Mutex
	config Config
	// former contains the names that are no longer backends, with the time until which they count as backends.
	former map[string]time.Time
	told   told
	names  names
	// answered contains the names for which nginx has had an answer.
	answered map[string]answers
	// last contains the last answer for each name that does not resolve. began is the time at which the resolver
	// started.
	last  map[string]found
	began time.Time
}

// Result is the kind of an answer.
type Result string

// The results. Absent is for a name that does not exist or has no address. OnlyDenied is for a name that has only
// denied addresses. NoPod is for a pod that has no address now.
const (
	Resolved   Result = "resolved"
	Absent     Result = "absent"
	OnlyDenied Result = "denied"
	NoPod      Result = "nobody"
	Failed     Result = "failed"
)

// New returns a resolver that answers SERVFAIL until [Resolver.Configure]. counted is called with the result of each
// answer.
func New(log *slog.Logger, c clock.PassiveClock, counted func(Result)) *Resolver {
	return &Resolver{
		log: log, clock: c, counted: counted, last: map[string]found{}, names: names{}, former: map[string]time.Time{},
		answered: map[string]answers{}, began: c.Now(), pace: usual,
	}
}

// Configure replaces the configuration.
func (r *Resolver) Configure(c Config) {
	c.ClusterDomain, c.PodDomain = canonical(c.ClusterDomain), canonical(c.PodDomain)
	backends := map[string]bool{}
	for name := range c.Backends {
		backends[canonical(name)] = true
	}
	c.Backends = backends
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for name := range r.config.Backends {
		if !backends[name] && len(r.former) < maxNames {
			r.former[name] = r.clock.Now().Add(c.FormerFor)
		}
	}
	r.config = c
}

// current returns the configuration. Its backends include the former ones that still count. The caller must hold the
// mutex.
func (r *Resolver) current() Config {
	now, c := r.clock.Now(), r.config
	maps.DeleteFunc(r.former, func(_ string, until time.Time) bool { return !now.Before(until) })
	if len(r.former) == 0 {
		return c
	}
	c.Backends = maps.Clone(c.Backends)
	for name := range r.former {
		c.Backends[name] = true
	}
	return c
}

// Serve answers queries on both sockets until the context ends. It then closes the sockets.
func (r *Resolver) Serve(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := r.answer(ctx, question)
		answer.Compress = true
		if w.RemoteAddr().Network() == "udp" {
			answer.Truncate(datagram)
		}
		_ = w.WriteMsg(answer) // nginx asks again
	})
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: handler}, {Listener: tcp, Handler: handler}} {
		group.Go(func() error {
			stop := context.AfterFunc(ctx, func() {
				_, _ = udp.Close(), tcp.Close()
				_ = server.Shutdown() // ends connections, and waits for their answers
			})
			defer stop()
			if err := server.ActivateAndServe(); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// answer returns the answer to a question.
func (r *Resolver) answer(ctx context.Context, question *dns.Msg) *dns.Msg {
	if len(question.Question) != 1 { // package dns accepts messages without a question
		return new(dns.Msg).SetRcodeFormatError(question)
	}
	answer := new(dns.Msg).SetReply(question)
	answer.RecursionAvailable = true
	asked := question.Question[0]
	if asked.Qtype != dns.TypeA || asked.Qclass != dns.ClassINET {
		answer.Rcode = dns.RcodeNotImplemented
		return answer
	}
	name := canonical(asked.Name)
	found := r.find(ctx, name)
	r.note(name, found)
	switch found.result {
	case Failed:
		answer.Rcode = dns.RcodeServerFailure
	case Absent, OnlyDenied:
		answer.Rcode = dns.RcodeNameError
	case Resolved, NoPod:
		for _, address := range found.addresses {
			answer.Answer = append(answer.Answer, &dns.A{A: address.AsSlice(), Hdr: dns.RR_Header{
				Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: uint32(found.ttl.Seconds()),
			}})
		}
	}
	return answer
}

// found is the answer to nginx for a name.
type found struct {
	result    Result
	addresses []netip.Addr
	ttl       time.Duration
	// denied are the addresses that the answer leaves out.
	denied []netip.Addr
	at     time.Time
}

// find returns the answer for a name. It asks the name servers only if the answer is not known yet.
func (r *Resolver) find(ctx context.Context, name string) found {
	r.mutex.Lock()
	config, now := r.current(), r.clock.Now()
	address, known := r.told.address(name, config, now)
	isNew := r.isNew(name, now)
	r.mutex.Unlock()
	switch {
	case known && address == Nobody:
		return found{result: NoPod, addresses: []netip.Addr{address}, ttl: podTTL}
	case known:
		return found{result: Resolved, addresses: []netip.Addr{address}, ttl: podTTL}
	case config.isPod(name) && now.Sub(r.began) < agentapi.AddressesValid:
		return found{result: Failed} // the operator may send the address soon; nginx keeps its earlier addresses until then
	}
	reply, ok := r.lookup(ctx, name, config)
	f := config.judge(reply)
	f.ttl = max(reply.expires.Sub(r.clock.Now()), minTTL)
	if !ok && len(f.denied) == 0 { // nginx must not keep an address that is denied now
		return found{result: Failed}
	}
	switch {
	case config.isPod(name):
		f.ttl = podTTL
	case isNew:
		f.ttl = minTTL // see answers
	}
	return f
}

// note counts an answer, and logs it if its result differs from the last one for the name.
func (r *Resolver) note(name string, f found) {
	r.counted(f.result)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	f.at = r.clock.Now()
	r.noteAnswer(name, f)
	before, failed := r.last[name]
	if f.result == Resolved || f.result == NoPod {
		delete(r.last, name)
	} else {
		if len(r.last) >= maxNames {
			clear(r.last)
		}
		r.last[name] = f
	}
	if _, fails := r.last[name]; before.result != f.result && (failed || fails) {
		r.log.Info("nginx asks for a name", "name", name, "result", f.result, "denied", f.denied)
	}
}

// forgotten is the time for which Problem lists a name after nginx's last query for the name. nginx asks again after
// eleven seconds at most.
const forgotten = 30 * time.Second

// Problem returns an error that lists the names whose addresses are all denied, so that nginx gets none; nil if there
// are no such names.
func (r *Resolver) Problem() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(r.last)) {
		if f := r.last[name]; f.result == OnlyDenied && r.clock.Since(f.at) < forgotten {
			problems = append(problems, fmt.Errorf("%s leads only to addresses where no origin may be (%v): "+
				"change where it leads, or spec.origin", name, f.denied[0]))
		}
	}
	return errors.Join(problems...)
}

// canonical returns a name in lower case, without the dot of the root.
func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
