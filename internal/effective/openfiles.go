package effective

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// filesOfConnection is the maximum number of open files of a connection: its socket, and a cache file or a temporary
	// file.
	filesOfConnection = 2
	// otherFiles is the number of other files that a worker has open: listening sockets, and the sockets to the agent
	// and to other workers.
	otherFiles = 256
	// leastConnections is the lowest value of worker_connections, however low the limit on open files is.
	leastConnections = 64
	// shareOfTier divides the limit on open files: the memory tier may keep one eighth of that number of files open.
	shareOfTier = 8
)

// TierFilesOpen returns the number of files of the memory tier that each worker keeps open between requests
// (open_file_cache). limit is the hard limit on open files; 0 if it is not known.
func TierFilesOpen(spec v1alpha1.CacheNodeSpec, limit int64) int64 {
	const most = 4096
	switch {
	case !HasMemoryTier(spec):
		return 0
	case limit > 0:
		return min(most, limit/shareOfTier)
	default:
		return most
	}
}

// OpenFiles returns the values of worker_connections and worker_rlimit_nofile. limit is the hard limit on open files;
// 0 if it is not known. nginx runs without privileges, so it cannot exceed this limit. nginx does not lower the limit
// either, because a response in slices keeps a file open for each slice. worker_connections is at most the number of
// connections for which the limit is sufficient. With more connections, nginx would fail to open cache files, as if
// the disk had failed.
func OpenFiles(spec v1alpha1.CacheNodeSpec, limit int64) (connections int32, files int64) {
	connections = Connections(spec)
	if limit <= 0 {
		return connections, 2*filesOfConnection*int64(connections) + TierFilesOpen(spec, limit)
	}
	room := max((limit-otherFiles-TierFilesOpen(spec, limit))/filesOfConnection, leastConnections)
	return int32(min(room, int64(connections))), limit //nolint:gosec // at most connections
}

// FewFiles returns a message if the limit on open files of a pod lowers listen.maxConnections; "" if it does not.
func FewFiles(spec v1alpha1.CacheNodeSpec, pod string, limit int64) string {
	want := Connections(spec)
	got, _ := OpenFiles(spec, limit)
	if got == want {
		return ""
	}
	return fmt.Sprintf("listen.maxConnections: a process of %s may have %d files open, so each worker takes "+
		"%d connections instead of %d; raise the limit on open files (nofile) of the container runtime to %d",
		pod, limit, got, want, filesOfConnection*int64(want)+otherFiles+TierFilesOpen(spec, 0))
}
