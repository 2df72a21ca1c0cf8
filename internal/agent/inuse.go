package agent

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// assumeInUse tells the purger, when the agent starts, which disks an nginx that runs already uses. They stay in use
// while they catch up.
func (c *conductor) assumeInUse() {
	if c.Started() {
		return
	}
	if c.Nginx.Running() && c.noted == nil {
		text, err := os.ReadFile(c.Paths.Root + layout.DisksInUse)
		if err != nil || json.Unmarshal(text, &c.noted) != nil {
			return // nothing counts as applied until nginx has taken a configuration
		}
	}
	c.purger.SetInUse(c.noted, nil)
}

// noteDisks notes the disks that nginx may use, for an agent that is restarted. It writes only what has changed.
func (c *conductor) noteDisks(disks []string) error {
	disks = slices.Compact(slices.Sorted(slices.Values(disks)))
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
