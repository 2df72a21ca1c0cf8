package reload

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// longestPause is the longest time between two reloads that [Pause] asks for. The first pod that tries a revision and
// the other pods pause one after another, and an edit should reach all of them within 30 s.
const longestPause = 10 * time.Second

// Each reload leaves workers with the memory of an earlier configuration, until their last connection ends. pauseShare
// is the part of nginx's memory that they may take before reloads are longestPause apart. mostShare is the part above
// which the oldest of them are ended.
const (
	pauseShare = 4
	mostShare  = 2
)

// Pause returns how long a reload must wait so that many reloads in a row do not fill the memory with old workers.
// since is the time since the last reload. leaving is the memory of the old workers, and all is the memory that nginx
// has. It is pure.
func Pause(since time.Duration, leaving, all int64) time.Duration {
	if all <= 0 {
		return 0 // not known
	}
	share := min(1, float64(leaving)*pauseShare/float64(all))
	return max(0, time.Duration(share*float64(longestPause))-since)
}

// Leaving returns the memory in bytes of the old workers, which finish their connections. Workers of the same
// configuration share memory, which is counted for each of them.
func (n *Nginx) Leaving() (bytes int64) {
	for _, size := range n.sizes() {
		bytes += size
	}
	return bytes
}

// sizes returns the memory of each old worker, by process ID.
func (n *Nginx) sizes() map[int]int64 {
	master, err := n.master()
	if err != nil {
		return nil
	}
	sizes := map[int]int64{}
	for _, pid := range n.oldWorkers(master) {
		sizes[pid] = anonymous(pid)
	}
	return sizes
}

// anonymous returns the anonymous memory of a process in bytes (RssAnon in proc_pid_status(5)). It does not contain the
// zones that all workers share.
func anonymous(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // a number
			return kilobytes << 10
		}
	}
	return 0
}

// EndOldest ends old workers, the oldest first, until the rest take at most half of nginx's memory. It returns how many
// it has ended. Their clients lose their connections; without this, the kernel would end all of nginx. The ages of
// workers come from [Nginx.KillStuck].
func (n *Nginx) EndOldest(all int64) (ended int) {
	if all <= 0 {
		return 0 // not known
	}
	for _, pid := range excess(n.leaving, n.sizes(), all/mostShare) {
		if syscall.Kill(pid, syscall.SIGTERM) == nil {
			ended++
		}
	}
	return ended
}

// excess returns the oldest workers without which the sizes of the others are at most limit together. It is pure.
func excess(leaving map[int]oldWorker, sizes map[int]int64, limit int64) (pids []int) {
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	oldest := slices.SortedFunc(maps.Keys(sizes), func(a, b int) int {
		return cmp.Or(leaving[a].since.Compare(leaving[b].since), cmp.Compare(a, b))
	})
	for _, pid := range oldest {
		if total <= limit {
			break
		}
		total -= sizes[pid]
		pids = append(pids, pid)
	}
	return pids
}
