package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/purge"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	journal "github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// readPurges reads the journal of purges that the kubelet has mounted, if there is one. It is as of the start of the
// pod, or newer.
func (c *conductor) readPurges() {
	if c.purger.IsReceived() { // that is newer, and whole
		return
	}
	var segments []journal.Segment
	for slot := range journal.Slots {
		text, err := os.ReadFile(filepath.Join(c.Paths.Purges, naming.PurgesFile(slot)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var s journal.Segment
		if err == nil {
			s, err = journal.DecodeSegment(text)
		}
		if err != nil { // nobody knows what it has
			c.Log.Warn("the purges", "error", err)
			return
		}
		segments = append(segments, s)
	}
	if journal.HasGap(segments) { // the kubelet does not bring them all at once
		c.Log.Warn("some purges are missing: waiting for the operator's")
		return
	}
	if len(segments) > 0 {
		c.purger.Load(journal.Join(segments))
	}
}

// policies returns the cache policies by which nginx stores now, or will.
func (c *conductor) policies(wanted agentapi.Revision) []v1alpha1.CachePolicy {
	// Only what the keys depend on.
	of := func(n agentapi.Revision) v1alpha1.CachePolicy {
		c := sites.Own(n.Spec).Cache
		return v1alpha1.CachePolicy{Key: c.Key, Query: c.Query, Methods: c.Methods}
	}
	list := []v1alpha1.CachePolicy{of(wanted)}
	if running := c.running(); running != nil && !reflect.DeepEqual(of(*running), of(wanted)) {
		list = append(list, of(*running))
	}
	return list
}

// purgeDisk begins to carry out purges on a disk.
func (a *Agent) purgeDisk(ctx context.Context, revision agentapi.Revision, name string, monitor *disk.Monitor) {
	own := a.Paths.Root + layout.DiskDir(name) + "/" + layout.OwnFolder
	a.purger.Watch(ctx, name, purge.Place{
		Folder: a.Paths.Root + layout.CacheDir(name), State: a.Paths.Root + layout.PurgesState(name),
		Checked: own + "/checked", Indexes: own, Refresh: a.Paths.Root + layout.RefreshDir(name),
		Owner:    revision.Namespace + "/" + revision.Name,
		IsUsable: func() bool { return monitor.State().Status == v1alpha1.DiskHealthy },
	})
}

// purgeMemory begins to carry out purges in the memory tier, if there is one.
func (a *Agent) purgeMemory(ctx context.Context, revision agentapi.Revision) {
	if effective.HasMemoryTier(revision.Spec) {
		a.purger.Watch(ctx, journal.MemoryStore, purge.Place{
			Folder: a.Paths.Root + layout.MemoryTierCache, State: a.Paths.Root + layout.MemoryPurges,
			Owner:    revision.Namespace + "/" + revision.Name,
			IsUsable: func() bool { return true },
		})
	}
}

// purgePatience is how long nginx waits, when the pod starts, for disks to obey the purges that the pod has missed. It
// then starts without those that do not. operatorPatience is how long it waits for the operator, which may know of
// purges that came after the kubelet had mounted the journal.
const (
	purgePatience    = 20 * time.Second
	operatorPatience = 5 * time.Second
)

// waitsForPurges returns true while nginx is not to start yet.
func (a *Agent) waitsForPurges() bool {
	if a.Started() || a.clock.Since(a.began) > a.startPatience {
		return false
	}
	if !a.purger.HasUpdate() && a.Nginx.Master() == 0 && a.clock.Since(a.began) < operatorPatience {
		return true
	}
	for name, s := range a.states() {
		if s.Status == v1alpha1.DiskHealthy && !a.purger.IsCurrent(name) {
			return true
		}
	}
	return false
}

// newlyCurrent makes the conductor look at a disk that may be used now, or whose keys have another generation.
func (a *Agent) newlyCurrent() {
	current := a.current()
	if current == nil || len(current.used) < len(current.revision.Spec.Disks) ||
		!maps.Equal(current.generations, a.purger.Generations()) {
		a.Wake()
	}
}

// used returns the disks of a revision that nginx uses with a configuration.
func used(revision agentapi.Revision, failed []string) (names []string) {
	for _, d := range revision.Spec.Disks {
		if !slices.Contains(failed, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}
