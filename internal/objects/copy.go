package objects

import "time"

// CopyPath is the URL path at which an agent accepts a [Lookup] by POST. It answers with a [Copy].
const CopyPath = "/v1/copy"

// MaxSlices is the maximum number of slices of one object that an agent looks for.
const MaxSlices = 4096

// Lookup names an object of which a pod may have a copy.
type Lookup struct {
	// Key is the key of the object, without the generation and the slice that precede it in a key on a disk.
	Key string `json:"key"`
	// Disk is the disk on which the agent looks for the copy, in addition to memory.
	Disk string `json:"disk"`
	// Slice is the size of a slice in bytes; 0 if objects are not stored in slices.
	Slice int64 `json:"slice,omitempty"`
}

// Copy describes the parts of an object that a pod has cached.
type Copy struct {
	// Bytes is the total size of the object's files on the disk; 0 if there are no files.
	Bytes int64 `json:"bytes,omitempty"`
	// Slices is the number of slices of the object on the disk. Length is the size of the whole object in bytes, as a
	// slice records it. Both are 0 if there are no slices.
	Slices int64 `json:"slices,omitempty"`
	Length int64 `json:"length,omitempty"`
	// File describes the file on the disk, or the first slice there. Memory describes the copy in memory.
	File   Freshness `json:"file,omitzero"`
	Memory Freshness `json:"memory,omitzero"`
}

// Freshness says how long nginx may serve a file. The zero value means that there is no file.
type Freshness struct {
	// Until is the time until which the response is fresh.
	Until time.Time `json:"until,omitzero"`
	// WhileRenewed is the time until which the expired response is served while another request renews it. OnErrors is the
	// time until which the expired response is served instead of errors of the origin. A time is zero if the expired
	// response is not served at all in this situation.
	WhileRenewed time.Time `json:"whileRenewed,omitzero"`
	OnErrors     time.Time `json:"onErrors,omitzero"`
}
