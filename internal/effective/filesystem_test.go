package effective

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestReadsOfAHit(t *testing.T) {
	const kibi = 1 << 10
	for name, tt := range map[string]struct {
		FileSystem
		small, large int64
	}{
		"usual":                       {FileSystem{Type: "xfs", BlockSize: 4 * kibi, ReadAhead: 128 * kibi}, 4, 12},
		"a longer read-ahead":         {FileSystem{Type: "ext4", BlockSize: 4 * kibi, ReadAhead: 512 * kibi}, 2, 9},
		"a much longer one":           {FileSystem{Type: "xfs", BlockSize: 16 * kibi, ReadAhead: 4096 * kibi}, 2, 4},
		"blocks between":              {FileSystem{Type: "xfs", BlockSize: 32 * kibi, ReadAhead: 4096 * kibi}, 1, 3},
		"larger blocks":               {FileSystem{Type: "xfs", BlockSize: 64 * kibi, ReadAhead: 128 * kibi}, 1, 6},
		"larger blocks and prepared":  {FileSystem{Type: "xfs", BlockSize: 64 * kibi, ReadAhead: 4096 * kibi}, 1, 2},
		"larger blocks and some more": {FileSystem{Type: "xfs", BlockSize: 64 * kibi, ReadAhead: 2048 * kibi}, 1, 4},
	} {
		if small, large := tt.Reads(); small != tt.small || large != tt.large {
			t.Errorf("%s: %d and %d reads, want %d and %d", name, small, large, tt.small, tt.large)
		}
	}
}

func TestAdvice(t *testing.T) {
	const kibi = 1 << 10
	usual := FileSystem{Type: "xfs", BlockSize: 4 * kibi, ReadAhead: 128 * kibi}
	got := usual.Advice(v1alpha1.HDD)
	if !strings.Contains(got, "blockdev --setra 8192") || !strings.Contains(got, "mkfs.xfs -b size=65536") {
		t.Errorf("usual: %q", got)
	}
	got = FileSystem{Type: "xfs", BlockSize: 64 * kibi, ReadAhead: 128 * kibi}.Advice(v1alpha1.HDD)
	if !strings.Contains(got, "blockdev") || strings.Contains(got, "mkfs") {
		t.Errorf("large blocks: %q", got)
	}
	got = FileSystem{Type: "xfs", BlockSize: 32 * kibi, ReadAhead: 128 * kibi}.Advice(v1alpha1.HDD)
	if !strings.Contains(got, "blockdev") || strings.Contains(got, "mkfs") {
		t.Errorf("blocks of 32 KiB: %q", got)
	}
	const fixed = "rw,allocsize=4k"
	large := FileSystem{Type: "xfs", BlockSize: 64 * kibi, ReadAhead: 4096 * kibi}
	if got := large.Advice(v1alpha1.NVMe); !strings.HasSuffix(got, "allocsize=4k; see docs/howto/prepare-disks.md") {
		t.Errorf("what XFS reserves: %q", got)
	}
	large.Options = fixed
	smaller := FileSystem{Type: "xfs", BlockSize: 32 * kibi, ReadAhead: 4096 * kibi, Options: fixed}
	for name, got := range map[string]string{
		"prepared":   large.Advice(v1alpha1.HDD),
		"for 64 KiB": smaller.Advice(v1alpha1.HDD),
		"an SSD":     usual.Advice(v1alpha1.SSD),
		"not known":  FileSystem{}.Advice(v1alpha1.HDD),
	} {
		if got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	usual.Options = "rw,noatime"
	const want = "xfs, blocks of 4Ki, read-ahead 128Ki (rw,noatime): " +
		"a cold hit costs about 4 reads for 64Ki and 12 for 1Mi"
	if got := usual.String(); got != want {
		t.Errorf("it is %q", got)
	}
	if got := (FileSystem{Type: "tmpfs", BlockSize: 4 * kibi}).String(); got != "tmpfs, blocks of 4Ki" {
		t.Errorf("without a device it is %q", got)
	}
}
