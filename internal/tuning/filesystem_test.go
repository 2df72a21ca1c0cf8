package tuning

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestReads(t *testing.T) {
	const kibi = 1 << 10
	for name, tt := range map[string]struct {
		FileSystem
		small, large int64
	}{
		"usual":                       {FileSystem{"xfs", 4 * kibi, 128 * kibi}, 4, 12},
		"a longer read-ahead":         {FileSystem{"ext4", 4 * kibi, 512 * kibi}, 2, 9},
		"a much longer one":           {FileSystem{"xfs", 16 * kibi, 4096 * kibi}, 2, 4},
		"larger blocks":               {FileSystem{"xfs", 64 * kibi, 128 * kibi}, 1, 6},
		"larger blocks and prepared":  {FileSystem{"xfs", 64 * kibi, 4096 * kibi}, 1, 2},
		"larger blocks and some more": {FileSystem{"xfs", 64 * kibi, 2048 * kibi}, 1, 4},
	} {
		if small, large := tt.Reads(); small != tt.small || large != tt.large {
			t.Errorf("%s: %d and %d reads, want %d and %d", name, small, large, tt.small, tt.large)
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
