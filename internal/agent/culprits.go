package agent

import (
	"context"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// mostTrials is the maximum number of configurations that the agent tries to find the routes that nginx
// refuses. One refused route of 2,000 changed ones needs 13 of them.
const mostTrials = 24

// refusedRoutes returns the IDs of the routes that make nginx refuse a revision; nil if the reason is another.
// Only routes that differ from the routes that nginx runs can be the reason.
func (c *conductor) refusedRoutes(ctx context.Context, revision agentapi.Revision, facts cache.Facts) []string {
	var running routes.Table
	if current := c.current(); current != nil {
		running = current.revision.Routes
	}
	table := revision.Routes
	return culprits(table.Changed(running), func(without map[string]bool) bool {
		revision.Routes = table.Without(without)
		config, err := cache.Render(cache.Input{Revision: revision, Facts: facts})
		return err == nil && c.Nginx.Check(ctx, config, c.files(config, facts)) == nil
	})
}

// culprits returns those elements of a list without which accepts returns true. accepts gets the elements that are left
// out. It returns nil if accepts returns true for the whole list, if leaving out elements does not help, or if more
// than mostTrials calls would be necessary.
func culprits(list []string, accepts func(without map[string]bool) bool) (found []string) {
	trials := 0
	try := func(with []string) bool {
		trials++
		without := make(map[string]bool, len(list))
		for _, id := range list {
			without[id] = true
		}
		for _, id := range with {
			delete(without, id)
		}
		return accepts(without)
	}
	if len(list) == 0 || try(list) || !try(nil) {
		return nil
	}
	// search looks for bad elements in a part of the list, and adds them to found. It returns false if it finds none.
	// isBad is true if earlier trials have shown that the part contains a bad element.
	var search func(part []string, isBad bool) bool
	search = func(part []string, isBad bool) bool {
		switch {
		case trials >= mostTrials || !isBad && try(part):
			return false
		case len(part) == 1:
			found = append(found, part[0])
		default:
			left := search(part[:len(part)/2], false)
			search(part[len(part)/2:], !left)
		}
		return true
	}
	search(list, true)
	without := map[string]bool{}
	for _, id := range found {
		without[id] = true
	}
	if trials >= mostTrials || !accepts(without) { // not the elements, but their number or a pair of them
		return nil
	}
	return found
}
