package purge

import (
	"maps"
	"slices"
)

// Path is where an agent takes an [Update] by PUT, and answers with [Done].
const Path = "/v1/purges"

// Update is the part of the journal that the operator sends to an agent.
type Update struct {
	// Floor and Head are those of the journal. Rules are those that changed after the place that the agent knows.
	Floor int64  `json:"floor"`
	Head  int64  `json:"head"`
	Rules []Rule `json:"rules,omitempty"`
	// Stale are URLs at which clients have changed something. The agent makes stale what it has of them now. They are
	// sent until the agent has answered, and are not in the journal.
	Stale []string `json:"stale,omitempty"`
	// After is the head that the sender thinks the agent has. An agent that has less leaves the rules alone, and answers
	// with its own head.
	After int64 `json:"after"`
}

// Done is what an agent has done of the journal.
type Done struct {
	// Head is the last place in the journal that the agent knows, and Applied the last one up to which everything that
	// nginx can serve from obeys the journal.
	Head    int64 `json:"head"`
	Applied int64 `json:"applied"`
	// Stores are the disks and the memory tier.
	Stores []StoreDone `json:"stores,omitempty"`
}

// With returns what was done, with the counts that an earlier answer has and this one lacks.
func (d Done) With(before Done) Done {
	for _, old := range before.Stores {
		i := slices.IndexFunc(d.Stores, func(s StoreDone) bool { return s.Name == old.Name })
		if i < 0 || len(old.Counts) == 0 {
			continue
		}
		counts := maps.Clone(old.Counts)
		maps.Copy(counts, d.Stores[i].Counts)
		d.Stores[i].Counts = counts
	}
	return d
}

// StoreDone is what was done on a disk, or in the memory tier, whose name is MemoryStore.
type StoreDone struct {
	Name    string `json:"name"`
	Applied int64  `json:"applied"`
	// Reason is why Applied is behind; "" if it is not, or if nginx does not use the disk.
	Reason string `json:"reason,omitempty"`
	// Counts are, by the number of a rule, what was removed or made stale for it so far. An answer has those of the rules
	// that the update is about, and of the last ones without an end.
	Counts map[int64]Count `json:"counts,omitempty"`
}

// Count is how much was removed or made stale. The slices and variants of an object are files of their own.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// MemoryStore is the name of the memory tier among the stores. No disk can have it.
const MemoryStore = "memory-tier"
