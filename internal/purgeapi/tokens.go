package purgeapi

import (
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// These are the limits for unknown tokens. Each unknown token causes a TokenReview at the API server, and anybody can
// invent tokens.
const (
	// maxToken is the maximum length of a token in bytes. The tokens of ServiceAccounts have about 1,000 bytes.
	maxToken = 8 << 10
	// wrongBurst is the number of wrong tokens that an address may send at once. wrongPerSecond is the number of wrong
	// tokens that the address may send each second after that.
	wrongBurst, wrongPerSecond = 20, 1
	// allBurst and allPerSecond are the same limits for all addresses together.
	allBurst, allPerSecond = 200, 50
	// maxKnown is the maximum number of tokens, and of addresses, that are remembered.
	maxKnown = 10_000
)

// tokenForm is the form of a token according to RFC 6750.
var tokenForm = regexp.MustCompile(`^[-A-Za-z0-9._~+/]+=*$`)

// tokenOf returns the token of a request; "" if the request has no token that could be valid.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken || !tokenForm.MatchString(token) {
		return ""
	}
	return token
}

// bucket is a token bucket. It contains the amount that may be taken at once, and it fills up again. Unlike
// rate.Limiter, it lets the caller give something back at any later time.
type bucket struct {
	perSecond, most, left float64
	filled                time.Time
}

func newBucket(perSecond, most float64) *bucket {
	return &bucket{perSecond: perSecond, most: most, left: most}
}

// fill adds the amount that has accumulated until the time now.
func (b *bucket) fill(now time.Time) *bucket {
	if !b.filled.IsZero() && now.After(b.filled) {
		b.left = min(b.most, b.left+b.perSecond*now.Sub(b.filled).Seconds())
	}
	if now.After(b.filled) {
		b.filled = now
	}
	return b
}

func (b *bucket) giveBack() { b.left = min(b.most, b.left+1) }

// strangers limits how many wrong tokens are checked. There is no limit for a token that was valid recently. So nobody
// can lock out users with valid tokens. strangers is safe for concurrent use.
type strangers struct {
	mutex     sync.Mutex
	all       *bucket
	addresses *lru.Cache                // network → *bucket
	looking   map[[sha256.Size]byte]int // hash of a token → number of requests for which it is being checked
	known     *lru.Cache                // hash of a token that is valid → true
	refused   *lru.Cache                // hash of a token that is not valid → time until which this is remembered
}

func newStrangers() *strangers {
	return &strangers{
		all: newBucket(allPerSecond, allBurst), addresses: lru.New(maxKnown),
		looking: map[[sha256.Size]byte]int{}, known: lru.New(maxKnown), refused: lru.New(maxKnown),
	}
}

// isRefused returns true for a token that was checked recently and was not valid.
func (s *strangers) isRefused(token string, now time.Time) bool {
	until, isThere := s.refused.Get(sha256.Sum256([]byte(token)))
	return isThere && now.Before(until.(time.Time)) //nolint:forcetypeassert // nothing else is put in
}

// verdict is the result of the check of a token.
type verdict int

const (
	unknown verdict = iota
	valid
	wrong
)

// may returns true if a token may be checked. In this case, the caller must call found with the result. If several
// requests have the same unknown token, the token counts only once.
func (s *strangers) may(address, token string, now time.Time) (found func(verdict), may bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := sha256.Sum256([]byte(token))
	own, all := s.of(address).fill(now), s.all.fill(now)
	if _, isKnown := s.known.Get(key); !isKnown && s.looking[key] == 0 {
		if own.left < 1 || all.left < 1 {
			return nil, false
		}
		own.left--
		all.left--
	}
	s.looking[key]++
	return func(v verdict) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.looking[key]--; s.looking[key] == 0 {
			delete(s.looking, key)
		}
		_, wasKnown := s.known.Get(key)
		switch {
		case v == wrong:
			s.known.Remove(key)
			s.refused.Add(key, now.Add(rememberShort))
		case v == valid && !wasKnown:
			s.known.Add(key, true)
			own.giveBack()
			all.giveBack()
		}
	}, true
}

// of returns the bucket of an address. The caller holds the mutex.
func (s *strangers) of(address string) *bucket {
	key := network(address)
	if b, isThere := s.addresses.Get(key); isThere {
		return b.(*bucket) //nolint:forcetypeassert // nothing else is put in
	}
	b := newBucket(wrongPerSecond, wrongBurst)
	s.addresses.Add(key, b)
	return b
}

// network returns the range of addresses that one machine can use. This is an IPv4 address, or the first 64 bits of an
// IPv6 address.
func network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.WithZone("").Prefix(64) // this cannot fail, because every IPv6 address has a prefix of 64 bits
	return prefix.String()
}
