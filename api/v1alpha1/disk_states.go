package v1alpha1

// DiskState is whether a disk of a pod is in use.
type DiskState string

// The states of a disk.
const (
	// DiskStarting: no probe has ended or timed out yet.
	DiskStarting DiskState = "Starting"
	// DiskHealthy: nginx uses the disk.
	DiskHealthy DiskState = "Healthy"
	// DiskFailed: the disk is out of use; its keys are on the other disks of the pod.
	DiskFailed DiskState = "Failed"
	// DiskDrained: a user has taken the disk out of use.
	DiskDrained DiskState = "Drained"
)

// DiskReason is why a disk is out of use; "" for a disk in use.
type DiskReason string

// The reasons.
const (
	// DiskIOError: a read, write or sync returned an error.
	DiskIOError DiskReason = "IOError"
	// DiskCorrupt: what was read is not what was written.
	DiskCorrupt DiskReason = "Corrupt"
	// DiskSlow: a probe took longer than health.timeout.
	DiskSlow DiskReason = "Slow"
	// DiskShutdown: the file system returns errors for every request, which lasts until it is unmounted everywhere.
	// After a repair, the pod must be replaced before the disk can be used again.
	DiskShutdown DiskReason = "Shutdown"
	// DiskReadOnly: the file system is mounted read-only.
	DiskReadOnly DiskReason = "ReadOnly"
	// DiskFull: less space is free than health.minFree.
	DiskFull DiskReason = "Full"
	// DiskNoInodes: fewer inodes are free than health.minFreeInodes.
	DiskNoInodes DiskReason = "NoInodes"
	// DiskNotMounted: no volume is mounted where the disk should be.
	DiskNotMounted DiskReason = "NotMounted"
	// DiskNodeDevice: the disk is a folder of the node's root file system, which a cache would fill.
	DiskNodeDevice DiskReason = "NodeDevice"
	// DiskSharedDevice: another disk of the pod is on the same device.
	DiskSharedDevice DiskReason = "SharedDevice"
	// DiskForeignCache: the disk holds the cache of another CacheNode.
	DiskForeignCache DiskReason = "ForeignCache"
)

// NeedsNewPod is true for a reason that lasts as long as the pod has the volume mounted, whether the disk is repaired or not.
func (r DiskReason) NeedsNewPod() bool {
	return r == DiskShutdown || r == DiskNotMounted || r == DiskNodeDevice || r == DiskSharedDevice
}
