package cache

import (
	"strconv"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// copiesOfOne returns how often per minute one object may be copied into memory, after a burst of three copies. That
// is one copy every ten seconds, or two copies in each maxExtraAge if that is more often. Without a limit, each
// request would try to copy an object for which there is no room.
func copiesOfOne(t v1alpha1.MemoryTier) int {
	const perMinute = 6
	return max(perMinute, int(2*time.Minute/max(effective.Duration(t.MaxExtraAge), time.Second)))
}

// renewals returns how often per minute an expired copy may be renewed, after a burst of three attempts. That is one
// renewal in the shortest time for which a copy is fresh. If the disk no longer has a fresh object, requests get the
// old copy until the attempts to renew it have failed. So more frequent attempts are not allowed.
func renewals(t v1alpha1.MemoryTier) int {
	return int(time.Minute / min(max(effective.Duration(t.MaxExtraAge), time.Second), leastLifetime))
}

// copies returns how many objects per second may be copied into memory. At this rate, objects of 128 KiB fill the
// tier in ten seconds. The rate is at least 10. Without this limit, the tier would be filled and emptied all the time
// if more objects are hot than it can hold. That would be at the expense of hits on the disks. A request that this
// limit rejects does not count in the limit of its object. So the objects with the most requests are copied first.
func copies(t v1alpha1.MemoryTier) int {
	const least, object, seconds = 10, 128 << 10, 10
	return max(least, int(effective.TierFiles(t)/object/seconds))
}

// atMost returns a regular expression for the decimal numbers from 0 to n without leading zeros. The expression
// contains no braces, because braces have a meaning in nginx's syntax.
func atMost(n int64) string {
	digits := strconv.FormatInt(n, 10)
	alternatives := []string{digits}
	for i, d := range digits {
		rest := strings.Repeat("[0-9]", len(digits)-i-1)
		least := '0'
		if i == 0 && len(digits) > 1 {
			least = '1'
		}
		switch {
		case d == least+1:
			alternatives = append(alternatives, digits[:i]+string(least)+rest)
		case d > least:
			alternatives = append(alternatives, digits[:i]+"["+string(least)+"-"+string(d-1)+"]"+rest)
		}
	}
	if len(digits) > 1 {
		alternatives = append(alternatives, "[0-9]"+strings.Repeat("[0-9]?", len(digits)-2))
	}
	return "(?:" + strings.Join(alternatives, "|") + ")"
}
