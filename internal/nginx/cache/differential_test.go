package cache_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
)

// TestDifferential sends random requests for random objects to the real nginx, on every way that a response can take
// (see differentialWay). It checks each response against what RFC 9110 and RFC 9111 allow, given the origin's answers
// so far. The message of a failure contains the command that plays the case again; see differentialAmount.
func TestDifferential(t *testing.T) {
	t.Parallel()
	amount := newDifferentialAmount(t)
	ways := differentialWays()
	var played atomic.Int64
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.name = name
			for first := amount.seed; ; first += uint64(amount.cases) {
				seeds := amount.seeds(first)
				t.Run(fmt.Sprint("seed ", first), func(t *testing.T) { w.play(t, seeds) })
				if t.Failed() || amount.isOver() {
					break
				}
			}
			played.Add(1)
		})
	}
	t.Cleanup(func() {
		if !amount.isReplay && int(played.Load()) == len(ways) && !t.Failed() {
			allKnownFound(t)
		}
	})
}

// differentialWay is one of the ways that responses can take through pods, disks and memory.
type differentialWay struct {
	name string
	// yaml is the spec of the CacheNode. fleet is the fleet that the pods get.
	yaml  string
	fleet fleet.Fleet
	// before contains the spec and the fleet for the first half of each case. It is nil if pods and disks do not change.
	before *differentialWay
	pods   int
	// standIn is true if the last pod is dead, and owns all keys.
	standIn bool
	// port is the port of the pods to which clients send requests over HTTP/1. It belongs to a listener of a Gateway, or
	// to the CacheNode's own site.
	port int
	// noScripts is true if nginx lacks its module for scripts.
	noScripts bool
	shape     differential.Shape
	way       differential.Way
}

const (
	// playersAtOnce is the number of cases that are played at the same time.
	playersAtOnce = 4
	// maxFailures is the number of failures after which no more cases are played.
	maxFailures = 3
)

// play plays cases on a way. If pods or disks change, it first plays the first half of every case, and then the second
// halves.
func (w differentialWay) play(t *testing.T, seeds []uint64) {
	t.Helper()
	l := w.start(t)
	games := make([]*game, len(seeds))
	for i, seed := range seeds {
		games[i] = l.game(t, w, seed)
	}
	if w.before != nil {
		l.each(games, func(g *game) { g.play(t, g.c.Steps[:stepsOfCase/2]) })
		l.yaml = w.yaml
		l.reconfigure(t, w.fleet)
		for _, g := range games {
			g.player.Tell("pods or disks change")
			g.played = stepsOfCase / 2
		}
	}
	l.each(games, func(g *game) { g.play(t, g.c.Steps[g.played:]) })
}

// each calls do for all games, playersAtOnce at a time.
func (l *differentialLab) each(games []*game, do func(*game)) {
	next := make(chan *game)
	var players sync.WaitGroup
	for range playersAtOnce {
		players.Go(func() {
			for g := range next {
				if l.failures.Load() < maxFailures {
					do(g)
				}
			}
		})
	}
	for _, g := range games {
		next <- g
	}
	close(next)
	players.Wait()
}

// game is a case that is played.
type game struct {
	w      differentialWay
	c      differential.Case
	path   string
	player differential.Player
	client *differentialClient
	// played is the number of steps that are done. isOver is true if one of these steps has failed. failed counts the
	// failed cases.
	played int
	isOver bool
	failed *atomic.Int64
}

// game prepares a case.
func (l *differentialLab) game(t *testing.T, w differentialWay, seed uint64) *game {
	t.Helper()
	g := &game{w: w, c: differential.Generate(seed, w.shape), path: w.path(t, seed), failed: l.failures}
	g.client = l.client(g.path, w.port)
	g.player = differential.Player{
		URL: l.origin.Add(g.path, g.c), Do: g.client.do,
		Settle:  func(answer string, copies int) { l.settle(t, g.path, answer, copies) },
		Expire:  func() { l.eachCopy(t, g.path, expireCopy) },
		Purge:   func() { l.eachCopy(t, g.path, removeCopy) },
		IsKnown: func(f differential.Fault) bool { return isKnown(t, w, f) },
	}
	g.player.Begin(w.way, g.c)
	return g
}

// path returns the path of a case. If a stand-in must answer, the dead pod owns the key of the path.
func (w differentialWay) path(t *testing.T, seed uint64) string {
	t.Helper()
	for i := 0; ; i++ {
		path := fmt.Sprintf("/case/%d/%d", seed, i)
		if !w.standIn {
			return path
		}
		key := "http://www.example.com" + path
		if w.port == routedPort {
			key = "site=" + routedSite + " " + key
		}
		if owner, _ := holders(t, w.fleet, key); owner == w.pods-1 {
			return path
		}
	}
}

// play plays steps of the case, if no earlier step has failed.
func (g *game) play(t *testing.T, steps []differential.Step) {
	t.Helper()
	defer g.client.Close()
	if g.isOver {
		return
	}
	f := g.player.Play(steps)
	if f == nil {
		return
	}
	g.isOver = true
	g.failed.Add(1)
	t.Errorf("%s\n  %v\n%sTo play it again:\n  CACHENODE_TEST_SEED=%d NGINX_ROOT=$(hack/nginx-root) "+
		"go test ./internal/nginx/cache -run '^TestDifferential$/^%s$'",
		g.path, f.Err, f.Story, g.c.Seed, strings.ReplaceAll(g.w.name, " ", "_"))
}
