package explain

import (
	"time"
)

// summary is the verb's output for programs.
type summary struct {
	Key  string `json:"key"`
	Hash uint32 `json:"hash"`
	Slot int    `json:"slot"`
	// Disk is the disk of the key while no disk has failed. Share is the part of all keys that this disk has.
	Disk  string `json:"disk"`
	Share string `json:"share"`
	// File is the path of the object, or of its first slice.
	File string `json:"file"`
	// Owners are the pods to which the key belongs, one entry for each zone if there are zones; left out if the pods do
	// not share keys.
	Owners []owner `json:"owners,omitempty"`
	// Route is the route and the backend that make the object; left out for the CacheNode's own site.
	Route string `json:"route,omitempty"`
	// RefusedHost is the host of the URL if it is not in spec.hosts, so that a request for it gets 421.
	RefusedHost string `json:"refusedHost,omitempty"`
	// Pods lists what each pod has cached of the object; left out if the CacheNode was read from a file instead of the
	// cluster.
	Pods []podSummary `json:"pods,omitempty"`
}

// owner contains the pod that owns the key, the pod that answers if the owner does not, and the owner before the last
// change.
type owner struct {
	Zone     string `json:"zone,omitempty"`
	Owner    string `json:"owner"`
	StandIn  string `json:"standIn,omitempty"`
	Previous string `json:"previous,omitempty"`
}

// podSummary describes what a pod has cached of the object.
type podSummary struct {
	Pod  string `json:"pod"`
	Disk string `json:"disk"`
	// Moved is true if the disk of the key is out of use in this pod. Older is true if the pod does not run the revision
	// that the spec asks for, so the object may be elsewhere.
	Moved bool `json:"moved,omitempty"`
	Older bool `json:"older,omitempty"`
	// Cached is true if the object, or a part of it, is on the disk. Bytes is the size of the object's files on the
	// disk.
	Cached bool  `json:"cached"`
	Bytes  int64 `json:"bytes,omitempty"`
	// Slices is the number of slices on the disk. AllSlices is the number of slices of the whole object; 0 if it is not
	// known.
	Slices     int64      `json:"slices,omitempty"`
	AllSlices  int64      `json:"allSlices,omitempty"`
	ValidUntil *time.Time `json:"validUntil,omitempty"`
	// InMemoryUntil is the time until which the copy in memory is fresh.
	InMemoryUntil *time.Time `json:"inMemoryUntil,omitempty"`
	// Problem says why the pod could not be asked.
	Problem string `json:"problem,omitempty"`
}

func summarize(p place, copies []held) summary {
	s := summary{
		Key: p.key, Hash: p.hash, Slot: p.slot, Disk: p.disk, Share: p.share, File: p.path, Route: p.route,
		RefusedHost: p.refused,
	}
	for _, o := range p.owners {
		s.Owners = append(s.Owners, owner{o.zone, o.owner, o.standIn, o.previous})
	}
	for _, c := range copies {
		told := podSummary{
			Pod: c.pod, Disk: c.disk, Moved: c.moved, Older: c.older, Cached: c.Bytes > 0, Bytes: c.Bytes,
			Slices: c.Slices, AllSlices: c.allSlices(), Problem: c.problem,
		}
		if c.Bytes > 0 {
			told.ValidUntil = new(c.File.Until.UTC())
		}
		if !c.Memory.Until.IsZero() {
			told.InMemoryUntil = new(c.Memory.Until.UTC())
		}
		s.Pods = append(s.Pods, told)
	}
	return s
}
