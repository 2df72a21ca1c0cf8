package v1alpha1

// DiskState says whether a disk of a pod is in use.
type DiskState string

// The states of a disk.
const (
	// DiskStarting means that no probe has ended or timed out yet.
	DiskStarting DiskState = "Starting"
	// DiskHealthy means that the disk passes its probes. nginx uses the disk unless a user has drained it.
	DiskHealthy DiskState = "Healthy"
	// DiskFailed means that the disk is out of use and its keys are on the other disks of the pod.
	DiskFailed DiskState = "Failed"
	// DiskDrained means that a user has taken the disk out of use.
	DiskDrained DiskState = "Drained"
)

// DiskReason is the reason why a disk is out of use. It is empty for a disk in use.
type DiskReason string

// The reasons.
const (
	// DiskIOError means that a read, write or sync returned an error.
	DiskIOError DiskReason = "IOError"
	// DiskCorrupt means that a probe read other bytes than it wrote.
	DiskCorrupt DiskReason = "Corrupt"
	// DiskSlow means that a probe took longer than health.timeout, and that the disk does not merely count as busy.
	DiskSlow DiskReason = "Slow"
	// DiskShutdown means that the file system returns errors for every request until it is unmounted everywhere. After a
	// repair, the pod must be replaced before the disk can be used again.
	DiskShutdown DiskReason = "Shutdown"
	// DiskReadOnly means that the file system is mounted read-only.
	DiskReadOnly DiskReason = "ReadOnly"
	// DiskFull means that less space is free than health.minFree.
	DiskFull DiskReason = "Full"
	// DiskNoInodes means that fewer inodes are free than health.minFreeInodes.
	DiskNoInodes DiskReason = "NoInodes"
	// DiskNotMounted means that no volume is mounted where the disk should be.
	DiskNotMounted DiskReason = "NotMounted"
	// DiskNodeDevice means that the volume is a folder on the node's own file system. A cache in this folder would fill
	// the node's file system.
	DiskNodeDevice DiskReason = "NodeDevice"
	// DiskSharedDevice means that another disk of the pod is on the same device.
	DiskSharedDevice DiskReason = "SharedDevice"
	// DiskForeignCache means that the disk holds the cache of another CacheNode.
	DiskForeignCache DiskReason = "ForeignCache"
)

// NeedsNewPod returns true for a reason that a repair of the disk alone does not remove: the reason lasts until a new
// pod mounts the volume.
func (r DiskReason) NeedsNewPod() bool {
	return r == DiskShutdown || r == DiskNotMounted || r == DiskNodeDevice || r == DiskSharedDevice
}
