package agent

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// assumeInUse tells the purger, when the agent starts, which disks an nginx that runs already may use. They stay in use
// while they catch up. If that is not known, nothing counts as applied until nginx has taken a configuration.
func (c *conductor) assumeInUse() {
	if c.Started() {
		return
	}
	if c.noted == nil { // also if nginx does not run: it may come back with the configuration of before
		c.noted = readDisks(c.Paths.Root + layout.DisksInUse)
	}
	switch {
	case !c.Nginx.Running():
		c.purger.SetInUse(nil, nil)
	case c.noted != nil:
		c.purger.SetInUse(c.noted, nil)
	}
}

// readDisks reads what noteDisks has written; nil if there is nothing, or if it is damaged.
func readDisks(path string) (disks []string) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil || json.Unmarshal(text, &disks) != nil {
		return nil
	}
	return disks
}

// noteDisks notes the disks that nginx may use, for an agent that is restarted. It writes only what has changed.
func (c *conductor) noteDisks(disks []string) error {
	disks = append([]string{}, disks...)
	slices.Sort(disks)
	disks = slices.Compact(disks)
	if c.noted != nil && slices.Equal(c.noted, disks) {
		return nil
	}
	text, err := json.Marshal(disks)
	if err != nil {
		return err
	}
	if err := c.Nginx.Write(cache.File{Path: layout.DisksInUse, Content: text}); err != nil {
		return err
	}
	c.noted = disks
	return nil
}

// take notes that nginx runs a configuration.
func (c *conductor) take(made applied) error {
	c.took(made)
	return c.noteDisks(made.used)
}
