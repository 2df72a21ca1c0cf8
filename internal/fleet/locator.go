package fleet

import (
	"strconv"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Locator finds the pods that keys are for. Its plans are made once: that takes milliseconds, and a key microseconds.
// The zero value is that of a fleet in which nobody owns keys.
type Locator struct {
	owners, standIns, previous shard.Tree
	isOwned                    bool
}

// Locator returns the locator of the fleet.
func (f Fleet) Locator() (l Locator) {
	plan, ok := f.Plan()
	if !ok {
		return l
	}
	l.owners, l.isOwned = plan.Tree(), true
	if standIns, ok := plan.StandIns(); ok {
		l.standIns = standIns.Tree()
	}
	if before, ok := f.Previous.Plan(); ok {
		l.previous = before.Tree()
	}
	return l
}

// Holders returns the ordinals of the pods that a key is for: its owner, the one that answers if the owner does not,
// and the owner before the last change. ok is false if nobody owns keys; a pod that does not exist is -1.
func (l Locator) Holders(key string) (owner, standIn, previous int, ok bool) {
	of := func(tree shard.Tree) int {
		pod, err := strconv.Atoi(strings.TrimPrefix(tree.Owner([]byte(KeyPrefix+key)), "p")) // as Name writes it
		if err != nil {                                                                      // the tree is empty
			return -1
		}
		return pod
	}
	return of(l.owners), of(l.standIns), of(l.previous), l.isOwned
}

// Holders returns who holds a single key; see [Locator.Holders].
func (f Fleet) Holders(key string) (owner, standIn, previous int, ok bool) {
	return f.Locator().Holders(key)
}
