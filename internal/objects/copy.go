package objects

import "time"

// CopyPath is where an agent takes a [Lookup] by POST, and answers with a [Copy].
const CopyPath = "/v1/copy"

// MaxSlices is how many slices of an object an agent looks for.
const MaxSlices = 4096

// Lookup names an object of which a pod may have a copy.
type Lookup struct {
	// Key is the object's, without what stands before it on a disk.
	Key string `json:"key"`
	// Disk is where the copy is looked for, besides memory.
	Disk string `json:"disk"`
	// Slice is the size of a slice in bytes; 0 if objects are not stored in slices.
	Slice int64 `json:"slice,omitempty"`
}

// Copy is what a pod has of an object.
type Copy struct {
	// Bytes is the size of the object's files on the disk together; 0 if there are none.
	Bytes int64 `json:"bytes,omitempty"`
	// Slices is how many slices of the object there are, and Length the size of the whole object in bytes, as a slice says
	// it; 0 if there are none.
	Slices int64 `json:"slices,omitempty"`
	Length int64 `json:"length,omitempty"`
	// File is about the file on the disk, or the first slice there. Memory is about the copy in memory.
	File   Freshness `json:"file,omitzero"`
	Memory Freshness `json:"memory,omitzero"`
}

// Freshness says until when a file is served; the zero value stands for no file.
type Freshness struct {
	// Until is when the response is no longer fresh.
	Until time.Time `json:"until,omitzero"`
	// WhileRenewed and OnErrors are until when it is served after that: while another request renews it, and instead of
	// the origin's errors. They are zero if it is not.
	WhileRenewed time.Time `json:"whileRenewed,omitzero"`
	OnErrors     time.Time `json:"onErrors,omitzero"`
}
