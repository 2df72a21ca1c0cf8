package purge

import (
	"maps"
	"slices"
)

// Path is the URL path at which an agent accepts an [Update] by PUT. It answers with [Done].
const Path = "/v1/purges"

// Update is the part of the journal that the operator sends to an agent.
type Update struct {
	// Floor and Head are the floor and the head of the journal. Rules are the rules that changed after the place that
	// the agent knows.
	Floor int64  `json:"floor"`
	Head  int64  `json:"head"`
	Rules []Rule `json:"rules,omitempty"`
	// Stale are URLs at which clients have changed something. For each URL, the agent makes the objects stale that are in
	// the pod's cache at this time. The operator sends the URLs until the agent has answered. They are not in the journal.
	Stale []string `json:"stale,omitempty"`
	// After is the head that the sender expects the agent to have. An agent with a lower head ignores the rules, and
	// answers with its own head.
	After int64 `json:"after"`
}

// Done reports up to which place an agent has carried out the journal.
type Done struct {
	// Head is the last place in the journal that the agent knows. Applied is the place up to which all stores from which
	// nginx can serve obey the journal.
	Head    int64 `json:"head"`
	Applied int64 `json:"applied"`
	// Stores are the disks and the memory tier.
	Stores []StoreDone `json:"stores,omitempty"`
}

// With returns the answer together with those counts of an earlier answer that this answer does not contain.
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

// StoreDone reports up to which place the journal was carried out on a disk or in the memory tier. The name of the
// memory tier is MemoryStore.
type StoreDone struct {
	Name    string `json:"name"`
	Applied int64  `json:"applied"`
	// Reason says why Applied is lower than the head of the journal. It is "" if Applied is not lower, or if nginx does
	// not use the disk.
	Reason string `json:"reason,omitempty"`
	// Counts contains the amount that was removed or made stale so far for each rule, by the number of the rule. An answer
	// contains the counts of the rules in the update. It also contains the counts of the first rule without an end and of
	// all later rules. The agent looks for this first rule only among the last 1,000 rules.
	Counts map[int64]Count `json:"counts,omitempty"`
}

// Count is the amount that was removed or made stale. Each slice and each variant of an object is a separate file.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// MemoryStore is the name of the memory tier among the stores. No disk can have this name.
const MemoryStore = "memory-tier"
