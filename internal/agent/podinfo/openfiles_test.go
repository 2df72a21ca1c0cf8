package podinfo

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	const (
		heading = "Limit                     Soft Limit           Hard Limit           Units     \n"
		files   = heading + "Max open files            1024                 "
	)
	for name, tt := range map[string]struct {
		text string
		want int64
	}{
		"the hard limit":     {files + "4096                 files     \n", 4096},
		"no limit":           {files + "unlimited            files     \n", 1 << 30},
		"more than there is": {files + "4294967296           files     \n", 1 << 30},
		"no such line":       {heading + "Max processes  1024  4096  processes \n", 0},
		"half a line":        {files, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := OpenFiles(write(t, "limits", tt.text)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if got := OpenFiles(t.TempDir()); got != 0 {
		t.Errorf("a process that has ended: %d", got)
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if got := OpenFiles("/proc/self"); got <= 0 || own.Max < 1<<30 && got != int64(own.Max) {
		t.Errorf("of this process: %d, want %d", got, own.Max)
	}
}
