package purge

// Path is where an agent takes an [Update] by PUT, and answers with [Done].
const Path = "/v1/purges"

// Update is the part of the journal that the operator sends to an agent.
type Update struct {
	// Floor and Head are those of the journal. Rules are those that changed after the place that the agent knows.
	Floor int64  `json:"floor"`
	Head  int64  `json:"head"`
	Rules []Rule `json:"rules,omitempty"`
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

// StoreDone is what was done on a disk, or in the memory tier, whose name is MemoryStore.
type StoreDone struct {
	Name    string `json:"name"`
	Applied int64  `json:"applied"`
	// Reason is why Applied is behind; "" if it is not, or if nginx does not use the disk.
	Reason string `json:"reason,omitempty"`
	// Files and Bytes are, by the number of a rule, what was removed or made stale for it so far.
	Counts map[int64]Count `json:"counts,omitempty"`
}

// Count is how much was removed or made stale. The slices and variants of an object are files of their own.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// MemoryStore is the name of the memory tier among the stores. No disk can have it.
const MemoryStore = "memory-tier"
