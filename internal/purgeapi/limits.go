package purgeapi

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxUsers is how many users' budgets are remembered. Whoever was forgotten has a full one again.
const maxUsers = 10_000

// budgets limit how many items each user may purge. They are safe for concurrent use.
type budgets struct {
	perSecond rate.Limit
	burst     int

	mutex sync.Mutex
	users *lru.Cache // user → *rate.Limiter
}

func newBudgets(perSecond, burst int) *budgets {
	return &budgets{perSecond: rate.Limit(perSecond), burst: burst, users: lru.New(maxUsers)}
}

// take takes the cost of a request from a user's budget.
func (b *budgets) take(user string, cost int, now time.Time) error {
	reservation := b.of(user).ReserveN(now, cost)
	if !reservation.OK() {
		return &problem{code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf(
			"the request names %d URLs, prefixes, hosts and tags, and %d are allowed at once: divide it", cost, b.burst)}
	}
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return &problem{code: http.StatusTooManyRequests, retry: delay, text: fmt.Sprintf(
			"%s may purge %g URLs, prefixes, hosts and tags a second: send the request later", user, b.perSecond)}
	}
	return nil
}

func (b *budgets) of(user string) *rate.Limiter {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if limiter, isThere := b.users.Get(user); isThere {
		return limiter.(*rate.Limiter) //nolint:forcetypeassert // nothing else is put in
	}
	limiter := rate.NewLimiter(b.perSecond, b.burst)
	b.users.Add(user, limiter)
	return limiter
}

// places limit how many requests are answered at once, and keep one user from taking all of them. They are safe for
// concurrent use.
type places struct {
	most int

	mutex sync.Mutex
	taken int
	users map[string]int // no entry is 0
}

// take takes a place until the caller calls free.
func (p *places) take(user string) (free func(), err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.taken >= p.most || p.users[user] >= max(1, p.most/2) {
		return nil, unavailable("too many requests wait already: send the request again, or with a shorter timeoutSeconds")
	}
	p.taken++
	p.users[user]++
	return func() { p.free(user) }, nil
}

func (p *places) free(user string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.taken--
	if p.users[user]--; p.users[user] == 0 {
		delete(p.users, user)
	}
}
