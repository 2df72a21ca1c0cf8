package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// urls returns a target with n URLs.
func urls(n int) (t purge.Target) {
	for i := range n {
		t.URLs = append(t.URLs, fmt.Sprintf("http://a/%d", i))
	}
	return t
}

func tags(list ...string) purge.Target { return purge.Target{Tags: list} }

// TestGather checks which requests with the same key are put into one batch.
func TestGather(t *testing.T) {
	t.Parallel()
	all := purge.Target{Everything: true}
	long := purge.Target{Tags: []string{strings.Repeat("x", purge.MaxText-1)}}
	for name, tt := range map[string]struct {
		targets []purge.Target
		want    [][]int // the numbers of the requests in each batch
	}{
		"one":                     {[]purge.Target{urls(1)}, [][]int{{0}}},
		"several":                 {[]purge.Target{urls(1), tags("a"), urls(2)}, [][]int{{0, 1, 2}}},
		"as many as fit":          {[]purge.Target{urls(600), urls(400), urls(1), tags("a")}, [][]int{{0, 1}, {2, 3}}},
		"each list has its limit": {[]purge.Target{urls(1000), tags("a")}, [][]int{{0, 1}}},
		"everything goes alone":   {[]purge.Target{tags("a"), all, tags("b")}, [][]int{{0}, {1}, {2}}},
		"everything twice":        {[]purge.Target{all, all}, [][]int{{0, 1}}},
		"as many bytes as fit":    {[]purge.Target{long, tags("a"), tags("b")}, [][]int{{0, 1}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := Queue[int]{Window: time.Second}
			now := time.Unix(0, 0)
			for i, target := range tt.targets {
				if isFirst := q.Add(Key{}, Member[int]{target, i}, now); isFirst != (i == 0) {
					t.Errorf("request %d begins a sender: %t", i, isFirst)
				}
			}
			var got [][]int
			for {
				b, _, isOver := q.Next(Key{}, now.Add(time.Second))
				if isOver {
					break
				}
				var replies []int
				var items int
				for _, m := range b.Members {
					replies = append(replies, m.Reply)
					items += m.Target.Items()
				}
				if b.Target().Items() != items {
					t.Errorf("the batch of %v names %d items, want %d", replies, b.Target().Items(), items)
				}
				got = append(got, replies)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestWindow checks when a batch is sent.
func TestWindow(t *testing.T) {
	t.Parallel()
	q := Queue[int]{Window: 25 * time.Millisecond}
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	next := func(ms, members int, wait time.Duration, isOver bool) {
		t.Helper()
		b, gotWait, gotOver := q.Next(Key{}, at(ms))
		if len(b.Members) != members || gotWait != wait || gotOver != isOver {
			t.Errorf("at %d ms: %d members, wait %s, over %t, want %d, %s, %t",
				ms, len(b.Members), gotWait, gotOver, members, wait, isOver)
		}
	}
	q.Add(Key{}, Member[int]{tags("a"), 0}, at(0))
	next(5, 0, 20*time.Millisecond, false)
	q.Add(Key{}, Member[int]{tags("b"), 1}, at(10))
	next(25, 2, 0, false)
	if q.Add(Key{}, Member[int]{tags("c"), 2}, at(30)) { // while the sender sends the first two requests
		t.Error("a second sender begins")
	}
	next(40, 0, 15*time.Millisecond, false)
	q.Add(Key{}, Member[int]{purge.Target{Everything: true}, 3}, at(41))
	next(42, 1, 0, false) // this batch is full and cannot grow any more
	next(66, 1, 0, false)
	next(67, 0, 0, true)
	if !q.Add(Key{}, Member[int]{tags("d"), 4}, at(70)) {
		t.Error("no sender begins after the end of the first")
	}
}

// TestKeys checks that requests with different keys are never in the same batch.
func TestKeys(t *testing.T) {
	t.Parallel()
	q := Queue[int]{}
	keys := []Key{
		{User: "a"}, {User: "b"}, {User: "a", Mode: "Soft"}, {User: "a", CacheNode: "edge"}, {User: "a", ByHost: true},
	}
	for i, key := range keys {
		if !q.Add(key, Member[int]{tags("x"), i}, time.Time{}) {
			t.Errorf("%+v has a sender", key)
		}
	}
	for i, key := range keys {
		b, _, _ := q.Next(key, time.Time{})
		if diff := cmp.Diff(Batch[int]{key, []Member[int]{{tags("x"), i}}}, b); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestHalves checks that no request is lost when a batch is divided.
func TestHalves(t *testing.T) {
	t.Parallel()
	for n := 2; n < 6; n++ {
		b := Batch[int]{Key: Key{User: "a"}}
		for i := range n {
			b.Members = append(b.Members, Member[int]{tags("x"), i})
		}
		first, second := b.Halves()
		if len(first.Members) == 0 || len(second.Members) == 0 || first.Key != b.Key || second.Key != b.Key {
			t.Errorf("%d members: %+v and %+v", n, first, second)
		}
		if diff := cmp.Diff(b.Members, slices.Concat(first.Members, second.Members)); diff != "" {
			t.Errorf("%d members (-want +got)\n%s", n, diff)
		}
	}
}
