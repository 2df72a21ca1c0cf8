package agent

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// assumeInUse tells the purger which disks an already running nginx may use, as long as this agent has given no
// configuration to nginx. These disks stay in use while the agent applies the purges that they have missed. If the
// agent does not know which disks nginx uses, no purge counts as applied until nginx has taken a configuration.
func (c *conductor) assumeInUse() {
	if c.Started() {
		return
	}
	if c.noted == nil { // needed even if nginx does not run: it may start with the previous configuration
		c.noted = readDisks(c.Paths.Root + layout.DisksInUse)
	}
	switch {
	case !c.Nginx.Running():
		c.purger.SetInUse(nil, nil)
	case c.noted != nil:
		c.purger.SetInUse(c.noted, nil)
	}
}

// readDisks reads the list that noteDisks has written; nil if there is no file, or if the file is damaged.
func readDisks(path string) (disks []string) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil || json.Unmarshal(text, &disks) != nil {
		return nil
	}
	return disks
}

// noteDisks writes the list of disks that nginx may use to a file, which the agent reads after a restart. It writes
// the file only if the list has changed.
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

// take records the configuration that nginx runs now, and the disks that nginx uses with this configuration.
func (c *conductor) take(made applied) error {
	c.took(made)
	c.removeCertificates(made.revision.Routes.Certificates())
	return c.noteDisks(made.used)
}
