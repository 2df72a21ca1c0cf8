package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/objects"
)

// held contains what a pod has cached of an object, and the disk on which the pod looked for the object.
type held struct {
	objects.Copy

	pod, disk string
	moved     bool
	// older is true if the pod does not run the revision that the spec asks for. The pod may then look for the object
	// elsewhere.
	older bool
	// slice is the size of a slice in bytes; 0 if there are no slices.
	slice   int64
	problem string
}

// allSlices returns the number of slices of the whole object; 0 if the object is not stored, or not stored in slices.
func (c held) allSlices() int64 {
	if c.Slices == 0 || c.Length == 0 {
		return 0
	}
	return (c.Length + c.slice - 1) / c.slice
}

// columns returns the pod's row in the table. own is the disk to which the plan assigns the key.
func (c held) columns(own string, now time.Time) []string {
	cached, size, valid := "no", "-", "-"
	var notes []string
	if c.Bytes > 0 {
		cached, size, valid = "yes", fmt.Sprint(c.Bytes), c.File.Until.UTC().Format(time.RFC3339)
		if c.File.Until.Before(now) {
			notes = append(notes, stale(c.File))
		}
	}
	if all := c.allSlices(); all > 0 {
		cached = fmt.Sprintf("%d of %d slices", c.Slices, all)
	}
	if !c.Memory.Until.IsZero() {
		notes = append(notes, "in memory too, until "+c.Memory.Until.UTC().Format(time.RFC3339))
	}
	if c.moved {
		notes = append(notes, own+" is out of use in this pod")
	}
	if c.older {
		notes = append(notes, "does not run what the spec asks for: it may be elsewhere")
	}
	if c.problem != "" {
		cached, notes = "unknown", append(notes, c.problem)
	}
	if notes == nil {
		notes = []string{"-"}
	}
	return []string{c.pod, c.disk, cached, size, valid, strings.Join(notes, "; ")}
}

// stale returns a text that says until when an expired file may be served.
func stale(f objects.Freshness) string {
	var times []string
	if !f.WhileRenewed.IsZero() {
		times = append(times, "until "+f.WhileRenewed.UTC().Format(time.RFC3339)+" while it is renewed")
	}
	if !f.OnErrors.IsZero() {
		times = append(times, "until "+f.OnErrors.UTC().Format(time.RFC3339)+" on errors")
	}
	if len(times) == 0 {
		return "expired: the origin is asked"
	}
	return "expired: served " + strings.Join(times, ", ")
}
