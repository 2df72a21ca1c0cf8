package cache

import (
	"strconv"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// copiesOfOne is how often in a minute an object may be copied into memory, after three times at once: once in ten seconds, or twice while a
// copy is good where that is less. An object that finds no room would be tried with each request otherwise.
func copiesOfOne(t v1alpha1.MemoryTier) int {
	const perMinute = 6
	return max(perMinute, int(2*time.Minute/max(tuning.Duration(t.MaxExtraAge), time.Second)))
}

// renewals is how often in a minute a copy that is good no longer may be renewed, after three times at once: once in the time that a
// copy is good, and once a minute at least. Where the disk has no fresh one any more, the old one is served until that is found out, so it is tried no more often.
func renewals(t v1alpha1.MemoryTier) int {
	return max(1, int(time.Minute/max(tuning.Duration(t.MaxExtraAge), time.Second)))
}

// copies is how many objects a second may be taken into memory: as many of 128 KiB as fill the tier in ten seconds. Where more is asked for
// often than the tier has room for, it would be filled and emptied all the time, and the disks' hits would pay for it. A request that
// finds this limit reached does not count in its object's own, so what is asked for most comes first.
func copies(t v1alpha1.MemoryTier) int {
	const least, object, seconds = 10, 128 << 10, 10
	return max(least, int(tuning.TierFiles(t)/object/seconds))
}

// atMost is a regular expression for the decimal numbers from 0 to n, without leading zeros; it has no braces, as nginx's
// syntax gives those a meaning.
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
	return "(" + strings.Join(alternatives, "|") + ")"
}
