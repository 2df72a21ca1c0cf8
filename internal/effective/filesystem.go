package effective

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// FileSystem describes how a disk is formatted and mounted.
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

// String returns a text such as "xfs, blocks of 4Ki, read-ahead 128Ki (rw,noatime): a cold hit costs about 4 reads for
// 64Ki and 12 for 1Mi".
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
		text += fmt.Sprintf(": a cold hit costs about %d reads for 64Ki and %d for 1Mi", small, large)
	}
	return text
}

// measured contains the number of disk reads for a cold hit. A cold hit is a hit whose bytes are not in the page cache.
// Each row contains the number for an object of 64 KiB and the number for an object of 1 MiB. The numbers come from
// test/bench/disks on Linux 6.18, with io.readAhead 1Mi. They are the same for XFS and ext4. A row matches a disk whose
// block size and read-ahead are at least those of the row. [FileSystem.Reads] uses the first row that matches.
var measured = []struct{ blocks, readAhead, of64Ki, of1Mi int64 }{
	{64 << 10, 4 << 20, 1, 2},
	{64 << 10, 1 << 20, 1, 4},
	{64 << 10, 0, 1, 6},
	{32 << 10, 4 << 20, 1, 3},
	{0, 4 << 20, 2, 4},
	{0, 512 << 10, 2, 9},
	{0, 0, 4, 12},
}

// Reads estimates the number of disk reads for a cold hit: see measured.
func (f FileSystem) Reads() (of64Ki, of1Mi int64) {
	for _, row := range measured {
		if f.BlockSize >= row.blocks && f.ReadAhead >= row.readAhead {
			return row.of64Ki, row.of1Mi
		}
	}
	return 0, 0
}

// Advice recommends changes that make the cache larger or hits cheaper on a disk of the given media, with the
// commands for them. It returns "" if there is nothing to recommend.
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

// countsTooMuch returns true if nginx counts cache files as larger than they are. After nginx has written a file, it
// counts all blocks of the file, unless the file has at least eight blocks more than it needs (ngx_file_fs_size). At
// this moment, the file still includes blocks that XFS has reserved. If a block has the size of a page, there are
// always eight or more reserved blocks. nginx then counts the file correctly.
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
	return fmt.Sprintf("a cold hit costs about %d reads for 64Ki and %d for 1Mi, "+
		"where %d and %d are possible with blocks of 64Ki: %s",
		small, large, best.of64Ki, best.of1Mi, strings.Join(steps, "; "))
}
