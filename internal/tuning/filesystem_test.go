package tuning

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestReads holds the estimate to what test/bench/disks measured on Linux 6.18, with read_ahead 1m.
func TestReads(t *testing.T) {
	const kibi = 1 << 10
	sizes := []int64{4 * kibi, 64 * kibi, 256 * kibi, 1024 * kibi, 4096 * kibi}
	for name, tt := range map[string]struct {
		FileSystem
		want []int
	}{
		"usual":                    {FileSystem{"xfs", 4 * kibi, 128 * kibi}, []int{1, 4, 5, 8, 20}},
		"ext4":                     {FileSystem{"ext4", 4 * kibi, 128 * kibi}, []int{1, 4, 5, 8, 20}},
		"a longer read-ahead":      {FileSystem{"xfs", 4 * kibi, 4096 * kibi}, []int{1, 3, 5, 7, 9}},
		"larger blocks":            {FileSystem{"xfs", 64 * kibi, 128 * kibi}, []int{1, 1, 2, 5, 17}},
		"larger blocks and longer": {FileSystem{"xfs", 64 * kibi, 4096 * kibi}, []int{1, 1, 3, 4, 6}},
	} {
		for i, size := range sizes {
			if got := tt.Reads(size); got != tt.want[i] {
				t.Errorf("%s: an object of %d KiB costs %d reads, want %d", name, size>>10, got, tt.want[i])
			}
		}
	}
}

func TestAdvice(t *testing.T) {
	const kibi = 1 << 10
	usual := FileSystem{"xfs", 4 * kibi, 128 * kibi}
	if got := usual.Advice(v1alpha1.HDD); !strings.Contains(got, "blockdev --setra 8192") || !strings.Contains(got, "mkfs.xfs -b size=65536") {
		t.Errorf("usual: %q", got)
	}
	if got := (FileSystem{"xfs", 64 * kibi, 128 * kibi}).Advice(v1alpha1.HDD); !strings.Contains(got, "blockdev") || strings.Contains(got, "mkfs") {
		t.Errorf("large blocks: %q", got)
	}
	for name, got := range map[string]string{
		"prepared": FileSystem{"xfs", 64 * kibi, 4096 * kibi}.Advice(v1alpha1.HDD), "an SSD": usual.Advice(v1alpha1.SSD),
		"not known": FileSystem{}.Advice(v1alpha1.HDD),
	} {
		if got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := usual.String(); got != "xfs, blocks of 4Ki, read-ahead 128Ki" {
		t.Errorf("it is %q", got)
	}
}
