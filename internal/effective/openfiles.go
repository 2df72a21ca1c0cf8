package effective

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// filesOfConnection is how many files a connection takes at most: its socket, and a file of a cache or a temporary
	// one.
	filesOfConnection = 2
	// otherFiles are those that a worker has open besides: sockets that listen, and those to the agent and to other
	// workers.
	otherFiles = 256
	// leastConnections is what is left of worker_connections whatever the limit on open files.
	leastConnections = 64
	// shareOfTier is which part of the limit on open files may be files of the memory tier.
	shareOfTier = 8
)

// TierFilesOpen returns how many files of the memory tier each worker keeps open between requests (open_file_cache),
// given the hard limit on open files; 0 means that this is not known.
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

// OpenFiles returns worker_connections and worker_rlimit_nofile for a hard limit on open files; 0 means that it is not
// known. nginx runs without privileges, so it cannot exceed that limit, and does not lower it either: a response in
// slices has a file open for each slice. Connections are as many as the limit suffices for. With more, nginx would fail
// to open the files of a cache, as if the disk had failed.
func OpenFiles(spec v1alpha1.CacheNodeSpec, limit int64) (connections int32, files int64) {
	connections = Connections(spec)
	if limit <= 0 {
		return connections, 2*filesOfConnection*int64(connections) + TierFilesOpen(spec, limit)
	}
	room := max((limit-otherFiles-TierFilesOpen(spec, limit))/filesOfConnection, leastConnections)
	return int32(min(room, int64(connections))), limit //nolint:gosec // at most connections
}

// FewFiles says that the limit on open files of a pod lowers listen.maxConnections; "" if it does not.
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
