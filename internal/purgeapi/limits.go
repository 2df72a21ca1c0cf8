package purgeapi

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxUsers is the maximum number of users whose budgets are remembered. A user whose budget was forgotten gets a full
// budget again.
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

// take takes the cost of a request from a user's budget. It returns an error if the budget is too small.
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

// shares divides a limited amount among the requests of all users. It is safe for concurrent use.
type shares struct {
	// The field most is the total amount, and the field each is the maximum amount of one user.
	most, each int64

	mutex sync.Mutex
	taken int64
	users map[string]int64 // users whose amount is 0 have no entry
}

func newShares(most, each int64) *shares {
	return &shares{most: most, each: each, users: map[string]int64{}}
}

// take reserves an amount for a user until the caller gives it back. It returns false if the total amount or the user's
// maximum would be exceeded.
func (s *shares) take(user string, amount int64) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.taken+amount > s.most || s.users[user]+amount > s.each {
		return false
	}
	s.taken += amount
	s.users[user] += amount
	return true
}

// give gives back an amount that was reserved for a user, or a part of it.
func (s *shares) give(user string, amount int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.taken -= amount
	if s.users[user] -= amount; s.users[user] == 0 {
		delete(s.users, user)
	}
}
