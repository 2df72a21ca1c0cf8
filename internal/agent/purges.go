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

// readPurges reads the journal of purges that the kubelet has mounted, if there is one. The mounted journal is the
// journal as it was at the start of the pod, or a newer version.
func (c *conductor) readPurges() {
	if c.purger.IsReceived() { // the operator's journal is newer, and complete
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
		if err != nil { // the content of this segment is not known
			c.Log.Warn("the purges", "error", err)
			return
		}
		segments = append(segments, s)
	}
	if journal.HasGap(segments) { // the kubelet does not update all segments at once
		c.Log.Warn("some purges are missing: waiting for the operator's")
		return
	}
	if len(segments) > 0 {
		c.purger.Load(journal.Join(segments))
	}
}

// policies returns the cache policies by which nginx stores objects now or soon. These are the policy of the wanted
// revision and, if it differs, the policy of the running revision.
func (c *conductor) policies(wanted agentapi.Revision) []v1alpha1.Cache {
	// The result of this function contains only the fields on which cache keys depend.
	of := func(n agentapi.Revision) v1alpha1.Cache {
		c := sites.Own(n.Spec).Cache
		return v1alpha1.Cache{Key: c.Key, CacheRules: v1alpha1.CacheRules{Query: c.Query}, Methods: c.Methods}
	}
	list := []v1alpha1.Cache{of(wanted)}
	if running := c.running(); running != nil && !reflect.DeepEqual(of(*running), of(wanted)) {
		list = append(list, of(*running))
	}
	return list
}

// purgeDisk starts to carry out purges on a disk, in the background.
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

// purgePatience limits how long the start of nginx waits for the disks to apply the purges that the pod has missed.
// After this time, nginx starts without the disks that have not applied these purges.
// operatorPatience is the longest time for which nginx waits for the operator. The operator may know of purges that
// were created after the kubelet mounted the journal.
const (
	purgePatience    = 20 * time.Second
	operatorPatience = 5 * time.Second
)

// waitsForPurges returns true while the start of nginx must wait for purges.
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

// newlyCurrent wakes the conductor if nginx may now be able to use a further disk, or if the generation of a disk's
// keys has changed.
func (a *Agent) newlyCurrent() {
	current := a.current()
	if current == nil || len(current.used) < len(current.revision.Spec.Disks) ||
		!maps.Equal(current.generations, a.purger.Generations()) {
		a.Wake()
	}
}

// used returns the names of the disks of a revision that nginx uses: all disks except those in the list failed. The
// method unused returns this list.
func used(revision agentapi.Revision, failed []string) (names []string) {
	for _, d := range revision.Spec.Disks {
		if !slices.Contains(failed, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}
