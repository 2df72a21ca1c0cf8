package effective

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// FileSystem is how a disk is formatted and mounted.
type FileSystem struct {
	// Type is the type of the file system, such as xfs.
	Type string `json:"type"`
	// BlockSize is the block size of the file system, in bytes.
	BlockSize int64 `json:"blockSize"`
	// ReadAhead is the read-ahead of the block device, in bytes; 0 if it is not known.
	ReadAhead int64 `json:"readAhead,omitempty"`
	// Options are the mount options, separated by commas.
	Options string `json:"options,omitempty"`
}

// String returns a text such as "xfs, blocks of 4Ki, read-ahead 128Ki (rw,noatime): a cold hit of 64Ki costs about 4
// reads, one of 1Mi 12".
func (f FileSystem) String() string {
	text := fmt.Sprintf("%s, blocks of %s", f.Type, Bytes(f.BlockSize))
	if f.ReadAhead > 0 {
		text += ", read-ahead " + Bytes(f.ReadAhead)
	}
	if f.Options != "" {
		text += " (" + f.Options + ")"
	}
	if f.ReadAhead > 0 {
		small, large := f.Reads()
		text += fmt.Sprintf(": a cold hit of 64Ki costs about %d reads, one of 1Mi %d", small, large)
	}
	return text
}

// measured is how many reads of the disk a hit costs whose bytes are not in the page cache, for an object of 64 KiB and
// for one of 1 MiB. The figures come from test/bench/disks on Linux 6.18, with io.readAhead 1Mi. XFS and ext4 do the
// same. A row is for disks with at least its blocks and read-ahead, and the first such row counts.
var measured = []struct{ blocks, readAhead, of64Ki, of1Mi int64 }{
	{64 << 10, 4 << 20, 1, 2},
	{64 << 10, 1 << 20, 1, 4},
	{64 << 10, 0, 1, 6},
	{32 << 10, 4 << 20, 1, 3},
	{0, 4 << 20, 2, 4},
	{0, 512 << 10, 2, 9},
	{0, 0, 4, 12},
}

// Reads estimates the reads of a cold hit, see measured.
func (f FileSystem) Reads() (of64Ki, of1Mi int64) {
	for _, row := range measured {
		if f.BlockSize >= row.blocks && f.ReadAhead >= row.readAhead {
			return row.of64Ki, row.of1Mi
		}
	}
	return 0, 0
}

// Advice returns what would make the cache larger or hits cheaper on a disk of a kind, with the commands; "" if there
// is nothing to gain.
func (f FileSystem) Advice(media v1alpha1.Media) string {
	var advice []string
	if f.countsTooMuch() {
		advice = append(advice, "XFS reserves space beyond a file that is being written, and nginx counts it, so objects of "+
			"64Ki to 512Ki count up to twice: mount with the option allocsize=4k")
	}
	if text := f.readAdvice(media); text != "" {
		advice = append(advice, text)
	}
	if len(advice) == 0 {
		return ""
	}
	return strings.Join(append(advice, "see docs/howto/prepare-disks.md"), "; ")
}

// countsTooMuch returns true if nginx takes cache files for larger than they are. When it has written a file, it counts
// the file's blocks if they are fewer than eight more than the file needs (ngx_file_fs_size). XFS then still holds
// blocks that it reserved, and with blocks of a page those are always more.
func (f FileSystem) countsTooMuch() bool {
	const page = 4 << 10
	return f.Type == "xfs" && f.BlockSize > page && !strings.Contains(f.Options, "allocsize=")
}

func (f FileSystem) readAdvice(media v1alpha1.Media) string {
	best := measured[0]
	small, large := f.Reads()
	wellPrepared := small <= best.of64Ki && large <= best.of1Mi+1 // blocks of 32 KiB suit objects of 64 KiB best
	if media != v1alpha1.HDD || f.Type == "" || f.ReadAhead == 0 || wellPrepared {
		return ""
	}
	var steps []string
	if f.ReadAhead < best.readAhead {
		steps = append(steps, "blockdev --setra 8192 DEVICE (a udev rule keeps it)")
	}
	if f.BlockSize < 32<<10 {
		steps = append(steps, "with objects of 256Ki and more on average, and Linux 6.12, "+
			"mkfs.xfs -b size=65536 DEVICE when the disk is next formatted, from 64Ki size=32768")
	}
	return fmt.Sprintf("a cold hit of 64Ki costs about %d reads and one of 1Mi about %d, "+
		"where %d and %d are possible with blocks of 64Ki: %s",
		small, large, best.of64Ki, best.of1Mi, strings.Join(steps, "; "))
}
