package tuning

import (
	"fmt"
	"math"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// FileSystem is how a disk is prepared, in bytes. ReadAhead is the block device's; 0 where it is not known.
type FileSystem struct {
	Type                 string
	BlockSize, ReadAhead int64
}

// String is such as "xfs, blocks of 4Ki, read-ahead 128Ki".
func (f FileSystem) String() string {
	text := fmt.Sprintf("%s, blocks of %s", f.Type, Bytes(f.BlockSize))
	if f.ReadAhead > 0 {
		text += ", read-ahead " + Bytes(f.ReadAhead)
	}
	return text
}

const (
	wellBlocks    = 64 << 10
	wellReadAhead = 1 << 20
)

// Reads estimates how many reads of the disk a hit costs whose bytes are not in the page cache, with read_ahead on. The kernel
// reads 16 KiB, or a block if that is more, for nginx's look at the header; the rest comes in windows that double up to
// twice the read-ahead (test/bench/disks).
func (f FileSystem) Reads(object int64) int {
	first := max(4*4096, f.BlockSize)
	if object <= first {
		return 1
	}
	window, left, reads := 2*first, object-first, 1
	most := max(f.ReadAhead, f.BlockSize)
	if object > 128<<10 {
		most = max(2*f.ReadAhead, f.BlockSize)
	}
	for left > 0 && reads < math.MaxInt16 {
		window = min(window, most)
		left -= window
		window *= 2
		reads++
	}
	return reads
}

// Advice is what would make hits cheaper on a disk of a kind, with the commands; "" where there is nothing to gain.
func (f FileSystem) Advice(media v1alpha1.Media) string {
	if media != v1alpha1.HDD || f.Type == "" || f.ReadAhead == 0 || (f.BlockSize >= wellBlocks && f.ReadAhead >= wellReadAhead) {
		return ""
	}
	well := FileSystem{Type: "xfs", BlockSize: wellBlocks, ReadAhead: 4 << 20}
	text := fmt.Sprintf("a hit of 64Ki costs about %d reads and one of 1Mi about %d, where %d and %d are possible: ",
		f.Reads(64<<10), f.Reads(1<<20), well.Reads(64<<10), well.Reads(1<<20))
	if f.ReadAhead < wellReadAhead {
		text += "blockdev --setra 8192 DEVICE (a udev rule keeps it)"
	}
	if f.BlockSize < wellBlocks {
		if f.ReadAhead < wellReadAhead {
			text += "; "
		}
		text += "with objects of mostly 64Ki and more, and Linux 6.12, mkfs.xfs -b size=65536 DEVICE when the disk is next made anew"
	}
	return text + "; see docs/howto/prepare-disks.md"
}
