package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Disk is one disk of each pod: a volume with its own thread pool, cache and share of the keys.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storageClassName) || !has(self.localPath)",message="localPath: cannot be set beside storageClassName: the operator makes the volumes in a class of its own",fieldPath=".localPath"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName: a volume cannot change its class: remove the disk and add one with another name",fieldPath=".storageClassName"
// +kubebuilder:validation:XValidation:rule="has(self.localPath) == has(oldSelf.localPath) && (!has(self.localPath) || self.localPath.path == oldSelf.localPath.path)",message="localPath: a volume cannot change its path: remove the disk and add one with another name",fieldPath=".localPath"
type Disk struct {
	// name identifies the disk. The name also influences which keys are on the disk. The name has at most 16 lower-case
	// letters and digits, begins with a letter and has no hyphen. It becomes part of nginx identifiers and of the claim's
	// name "<disk>-<cachenode>-<ordinal>". With hyphens in disk names, two CacheNodes could have claims with the same
	// name. The name must not be "memory", because this word marks responses from the memory tier. +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9]*$')",message="name: must be lower-case letters and digits and begin with a letter, such as disk1; no hyphen or underscore, so that no two names become one in nginx or in a claim's name"
	// +kubebuilder:validation:XValidation:rule="self != 'memory'",message="name: memory is what the memory tier is called: choose another"
	Name string `json:"name"`

	// size is the size that the disk's claim requests, such as 1Ti. It is also the disk's weight if no disk has a
	// weight. The default limits of the cache are computed from size or, if the measured file system is smaller, from
	// the file system. If you increase size, the claims request more space, provided that their StorageClass allows this
	// (allowVolumeExpansion). A claim never shrinks. Range 64Mi to 8Pi.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="size: must be at least 64Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('8Pi')) <= 0",message="size: must be at most 8Pi"
	Size resource.Quantity `json:"size"`

	// storageClassName is the StorageClass of the disk's claim. If neither storageClassName nor localPath is set, the
	// cluster's default class applies. For local disks, use a class with volumeBindingMode WaitForFirstConsumer. It must
	// not be cachenode-local, the class of the volumes that the operator creates for localPath. It cannot be changed. At
	// most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="storageClassName: must be the name of a StorageClass"
	// +kubebuilder:validation:XValidation:rule="self != 'cachenode-local'",message="storageClassName: cachenode-local is for the volumes that the operator makes: set localPath instead"
	StorageClassName *string `json:"storageClassName,omitempty"`

	// localPath makes the operator create the disk's volumes: local PersistentVolumes of the class "cachenode-local".
	// With placement.perNode, every node that pod.nodeSelector and pod.affinity allow gets a volume. Otherwise, only the
	// nodes that the pods need get a volume, plus two more nodes. It cannot be set together with storageClassName.
	// +optional
	LocalPath *LocalPath `json:"localPath,omitempty"`

	// media is the kind of disk: HDD, SSD or NVMe. It determines defaults such as the number of threads. Default HDD.
	// +optional
	// +kubebuilder:default=HDD
	Media Media `json:"media,omitempty"`

	// weight determines the disk's share of the keys, which is the weight divided by the sum of all weights. Set weight
	// on every disk or on none. Without weights, shares are in proportion to the sizes. Range 1 to 10000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight *int32 `json:"weight,omitempty"`

	// threadPool is the disk's thread pool.
	// +optional
	// +kubebuilder:default={}
	ThreadPool ThreadPool `json:"threadPool,omitempty"`

	// cache sets the limits of the disk's cache.
	// +optional
	// +kubebuilder:default={}
	Cache DiskCache `json:"cache,omitempty"`

	// health says when the disk is taken out of use and when it is used again.
	// +optional
	// +kubebuilder:default={}
	Health DiskHealth `json:"health,omitempty"`

	// foreignCache decides what happens to a cache on the disk that another CacheNode has marked as its own. Keep
	// (default) leaves this cache alone and does not use the disk. With localPath, Keep nevertheless deletes the cache
	// of a CacheNode that no longer exists. Empty always deletes the cache and uses the disk. Only the folder
	// "cachenode" on the disk is ever changed.
	// +optional
	// +kubebuilder:default=Keep
	ForeignCache ForeignCache `json:"foreignCache,omitempty"`
}

// LocalPath defines the path of a disk on each node.
type LocalPath struct {
	// path is the folder on the node at which the disk is mounted, such as /mnt/disk1. The operator does not create it. It
	// must lie directly in a folder that the operator allows (its flag --local-path-prefixes, default /mnt). It must not
	// overlap with the path of another volume of the node. It cannot be changed. At most 255 characters.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_][-A-Za-z0-9._]*)+$')",message="path: must be an absolute path such as /mnt/disk1: letters, digits, points, hyphens and underscores, no part that begins with a point or hyphen, no slash at the end"
	Path string `json:"path"`

	// requireMountPoint says whether path must be a mount point. With true (default), the disk is not used while nothing
	// is mounted at path. This keeps a cache from filling the node's root file system when a disk is missing. With false,
	// path may be an ordinary folder, at which nothing is mounted. It may then be on the same device as other disks or as
	// the node's own file system, as with health.device Shared.
	// +optional
	// +kubebuilder:default=true
	RequireMountPoint *bool `json:"requireMountPoint,omitempty"`
}

// ForeignCache is Keep or Empty.
//
// +kubebuilder:validation:Enum=Keep;Empty
type ForeignCache string

const (
	// KeepForeign leaves another CacheNode's cache alone. With localPath, this applies only while that CacheNode exists.
	KeepForeign ForeignCache = "Keep"
	// EmptyForeign deletes another CacheNode's cache.
	EmptyForeign ForeignCache = "Empty"
)

// DiskHealth contains the thresholds with which the agent in the pod decides whether a disk is healthy. A probe reads
// all blocks of the agent's own file, writes one block, syncs the file and reads this block back. The probe bypasses
// the page cache.
type DiskHealth struct {
	// interval is the time between two probes of a healthy disk. Range 500ms to 1m, default 1s.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('500ms') && duration(self) <= duration('1m'))",message="interval: must be from 500ms to 1m"
	Interval Duration `json:"interval,omitempty"`

	// timeout is the longest time that a probe may take. A probe that takes longer counts as a failed probe. While it
	// continues, it counts as one more failed probe after each further period of this length. The probe of a busy disk may
	// take up to 30s. A disk is busy if it completes at least 50 reads a second during the probe; for an HDD, 20 reads a
	// second suffice. Writes count too, as soon as the probe has finished its reads. Range 50ms to 1m. Default 2s for HDD
	// and 1s for SSD and NVMe.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('50ms') && duration(self) <= duration('1m'))",message="timeout: must be from 50ms to 1m"
	Timeout Duration `json:"timeout,omitempty"`

	// failures is the number of failed probes in a row after which the disk is taken out of use. It applies to IOError,
	// Corrupt and Slow; other reasons take effect at once. Range 1 to 100, default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Failures *int32 `json:"failures,omitempty"`

	// successes is the number of good probes in a row after which the disk is used again. The number doubles each time
	// the disk fails within ten minutes of its return, up to 64 times this value. Range 1 to 1000, default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Successes *int32 `json:"successes,omitempty"`

	// minFree is the free space below which the disk is taken out of use, so that responses do not break off for lack of
	// space. The disk is used again when one and a half times this space is free. minFree must be less than
	// cache.minFree, the space that nginx keeps free by evicting objects. Default 2% of the disk's size, at most half of
	// cache.minFree. 0 switches this check off.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="minFree: must not be negative"
	MinFree *resource.Quantity `json:"minFree,omitempty"`

	// minFreeInodes is the share of free inodes, in percent, below which the disk is taken out of use. The disk is used
	// again when one and a half times this share is free. Range 0 to 50, default 1. 0 switches this check off.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	MinFreeInodes *int32 `json:"minFreeInodes,omitempty"`

	// device is Own or Shared. With Own (default), the disk must be a separate mount on a separate device. Neither another
	// disk nor the node's own file system may use this device. With Shared, the disk may share its device with other disks
	// or with the node's own file system. If the device then fails, all of them fail.
	// +optional
	// +kubebuilder:default=Own
	Device DeviceRule `json:"device,omitempty"`
}

// DeviceRule is Own or Shared.
//
// +kubebuilder:validation:Enum=Own;Shared
type DeviceRule string

const (
	// OwnDevice requires a separate device for the disk.
	OwnDevice DeviceRule = "Own"
	// SharedDevice allows the disk to share a device with other disks or with the node's own file system.
	SharedDevice DeviceRule = "Shared"
)

// Media is a kind of disk.
//
// +kubebuilder:validation:Enum=HDD;SSD;NVMe
type Media string

// The kinds of disk.
const (
	HDD  Media = "HDD"
	SSD  Media = "SSD"
	NVMe Media = "NVMe"
)

// ThreadPool becomes the directive thread_pool.
type ThreadPool struct {
	// threads is the maximum number of reads and writes of this disk that each worker does at the same time. With
	// io.mode Workers, the workers of a CPU share this number. Range 1 to 1024. Default 64 for HDD (16 in NGINX's
	// article on thread pools), 32 for SSD and 64 for NVMe. The default is lower, but at least 16, if all pools of a pod
	// would otherwise exceed 1024 threads together.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Threads *int32 `json:"threads,omitempty"`

	// maxQueue is the number of tasks that may wait for a thread. If the queue is full, a request goes to another disk
	// of the pod. This is not possible in the middle of a body: a full queue would then end the response early. To
	// prevent this, maxQueue must not be less than listen.maxConnections, because a connection never has more than one
	// task in the queue. Range 256 to 1048576, default 65536.
	// +optional
	// +kubebuilder:default=65536
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MaxQueue *int32 `json:"maxQueue,omitempty"`
}

// DiskCache becomes the parameters of proxy_cache_path.
type DiskCache struct {
	// maxSize is the space that the cache files may take (max_size). nginx checks this limit periodically, not at each
	// write. Range 1Mi to the disk's size. Default 90% of the disk's size, or less if minFree leaves less. As soon as the
	// agent has measured the size of the file system, it refuses a larger value. If nginx can run no other revision, the
	// agent lowers the value instead.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="maxSize: must be at least 1Mi"
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`

	// minFree is the space of the file system that nginx keeps free (min_free). The default is the amount of data that a
	// disk of this kind can write in the 10 seconds between two checks by nginx. It is 1500Mi for HDD, 5000Mi for SSD and
	// 20Gi for NVMe. The default is at least 5% and at most 25% of the disk's size. 0 switches this limit off.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="minFree: must not be negative"
	MinFree *resource.Quantity `json:"minFree,omitempty"`

	// keysZone is the size of the shared memory for the index of the cache (keys_zone). Each mebibyte holds about 8,000
	// keys. If the zone is full, nginx evicts objects although the disk has room for them. The zones of all disks, and
	// 18Mi or more for nginx itself, must fit into the memory limit. Range 1Mi to 64Gi. Default a 4096th of the disk's
	// size, at least 8Mi and at most 4Gi. That is 256Mi for 1Ti, as in NGINX's article on thread pools. The default is
	// lower if the zones of all disks together would otherwise take more than half of the memory limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Gi')) <= 0",message="keysZone: must be at least 1Mi and at most 64Gi"
	KeysZone *resource.Quantity `json:"keysZone,omitempty"`

	// inactive is the time without a request after which an object is removed, whether it is fresh or not (inactive).
	// Default 168h.
	// +optional
	// +kubebuilder:default="168h"
	Inactive Duration `json:"inactive,omitempty"`
}
