package gateways

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// conditionCounter counts the conditions of routes. Their number is known only when a table is complete, because it
// depends on the paths and the hosts of all routes, see [routemap.Conditions]. If a table has too many, the counter
// notes how many each route has, and the table is made again. This time, the newest routes find no room.
type conditionCounter struct {
	// has contains the largest number of conditions that a route has had, by the route's ID.
	has map[string]int
	// times is the number of tables that had too many conditions.
	times int
}

// maxTimes is the number of tables with too many conditions after which the counter refuses all routes of a namespace.
// Without a route, other routes can have more conditions than before, but hardly by accident.
const maxTimes = 4

// of returns the number of conditions of a route. candidates is the number of its matches, counted for each host of
// each listener. If a table had too many conditions, each candidate of a route that is new in the next table counts as
// one. Otherwise each new table could contain other routes, of which nothing is known.
func (c *conditionCounter) of(id string, candidates int) int {
	n, ok := c.has[id]
	if !ok && c.times > 0 {
		return candidates
	}
	return n
}

// exceeds counts the conditions of a table. It returns true if they are too many. room is what the table uses, with the
// numbers that were noted before.
func (c *conditionCounter) exceeds(table routes.Table, room *room) bool {
	conditions := routemap.Conditions(table)
	more, all := map[string]int{}, 0 // by namespace, in addition to what was noted before
	for i, r := range table.Routes {
		n := conditions[i] - c.has[r.ID()]
		more[r.Namespace] += n
		all += n
	}
	exceeding := maps.Clone(more)
	maps.DeleteFunc(exceeding, func(namespace string, n int) bool {
		return room.of[namespace].conditions+n <= maxConditions/shares
	})
	switch {
	case len(exceeding) > 0:
	case room.total.conditions+all > maxConditions:
		exceeding = more
	default:
		return false
	}
	c.times++
	worst := slices.MaxFunc(slices.Sorted(maps.Keys(exceeding)), func(a, b string) int {
		return cmp.Compare(exceeding[a], exceeding[b])
	})
	for i, r := range table.Routes {
		if c.has[r.ID()] = max(c.has[r.ID()], conditions[i]); c.times > maxTimes && r.Namespace == worst {
			c.has[r.ID()] = maxConditions + 1
		}
	}
	return true
}
