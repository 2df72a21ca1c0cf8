package purge

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// TestRulebook compares two rulebooks. One follows a journal through many new rules, compactions and changes of the
// policies. The other is created from the whole journal at once.
func TestRulebook(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	policies := [][]v1alpha1.Cache{
		{{Key: []v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyURI}}},
		{{Key: []v1alpha1.KeyPart{v1alpha1.KeyURI}}, {Key: []v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyURI}}},
	}
	urls := []string{"http://a/1", "http://a/2", "http://b/1"}
	now := time.Unix(1_700_000_000, 0)
	var journal purge.Journal
	book := newRulebook(slog.New(slog.DiscardHandler))
	book.configure(policies[0])
	var keys []string
	for _, list := range policies {
		for _, policy := range list {
			patterns, err := purge.Target{URLs: urls}.Patterns(policy)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, patterns.Keys...)
		}
	}
	forgot, matched := 0, 0
	for i := range 1000 {
		now = now.Add(time.Minute)
		sent := journal.Head
		r := purge.Rule{Soft: random.IntN(2) == 0, Target: purge.Target{URLs: []string{urls[random.IntN(len(urls))]}}}
		if random.IntN(5) == 0 {
			r.Target = purge.Target{Tags: []string{"tag"}}
		}
		journal.Add(now, r)
		for _, r := range journal.Rules {
			if r.Until.IsZero() && random.IntN(3) > 0 {
				journal.Seal(now, r.Number, now)
			}
		}
		journal.Compact(now.Add(-time.Hour), 20_000, journal.Head)
		if book.merge(journal.Floor, journal.Head, journal.Since(sent)) {
			forgot++
		}
		if random.IntN(50) == 0 {
			book.configure(policies[random.IntN(2)])
		}
		if i%20 > 0 {
			continue
		}
		fresh := newRulebook(slog.New(slog.DiscardHandler))
		fresh.configure(book.policies)
		fresh.merge(journal.Floor, journal.Head, journal.Rules)
		if diff := cmp.Diff(fresh.patterns, book.patterns); diff != "" {
			t.Fatalf("step %d: the patterns (-fresh +followed):\n%s", i, diff)
		}
		for _, key := range keys {
			for _, received := range []time.Time{now.Add(-time.Hour), now.Add(-time.Minute), now} {
				e := index.Entry{Key: key, Tags: []string{"tag"}[:random.IntN(2)], Received: received}
				want, got := fresh.match(e).Effect, book.match(e).Effect
				if got != want {
					t.Fatalf("step %d: %+v: effect %d, want %d", i, e, got, want)
				}
				if got != purge.Keep {
					matched++
				}
			}
		}
	}
	if forgot == 0 || matched == 0 {
		t.Errorf("rules were forgotten %d times, and %d objects matched", forgot, matched)
	}
}
