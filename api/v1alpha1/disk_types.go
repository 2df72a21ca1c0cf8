package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Disk is one disk of each pod: a volume with a thread pool, a cache and a share of the keys of its own.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storageClassName) || !has(self.localPath)",message="localPath: cannot be set beside storageClassName: the operator makes the volumes in a class of its own",fieldPath=".localPath"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName: a volume cannot change its class: remove the disk and add one with another name",fieldPath=".storageClassName"
// +kubebuilder:validation:XValidation:rule="has(self.localPath) == has(oldSelf.localPath) && (!has(self.localPath) || self.localPath.path == oldSelf.localPath.path)",message="localPath: a volume cannot change its path: remove the disk and add one with another name",fieldPath=".localPath"
type Disk struct {
	// name identifies the disk; the keys that live on it follow the name. At most 16 lower-case letters and digits,
	// beginning with a letter, and no hyphen: it becomes part of nginx identifiers and of the claim's name
	// "<disk>-<cachenode>-<ordinal>", where a hyphen could make two CacheNodes claim the same volume. Not "memory", as
	// responses from the memory tier are marked so.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9]*$')",message="name: must be lower-case letters and digits and begin with a letter, such as disk1; no hyphen or underscore, so that no two names become one in nginx or in a claim's name"
	// +kubebuilder:validation:XValidation:rule="self != 'memory'",message="name: memory is what the memory tier is called: choose another"
	Name string `json:"name"`

	// size is what the disk's claim asks for, such as 1Ti. It is also the disk's weight where no disk has one. The limits
	// of the cache are derived from it or, where that is smaller, from the measured file system. A size that grows is
	// asked of the claims where their class allows that (allowVolumeExpansion); a claim never shrinks. At least 64Mi.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="size: must be at least 64Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('8Pi')) <= 0",message="size: must be at most 8Pi"
	Size resource.Quantity `json:"size"`

	// storageClassName is the class of the disk's claim. Unset, and localPath too: the cluster's default class. For local
	// disks, a class with volumeBindingMode WaitForFirstConsumer. It cannot be changed, and must not be cachenode-local, the
	// class of the volumes that the operator makes for localPath. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="storageClassName: must be the name of a StorageClass"
	// +kubebuilder:validation:XValidation:rule="self != 'cachenode-local'",message="storageClassName: cachenode-local is for the volumes that the operator makes: set localPath instead"
	StorageClassName *string `json:"storageClassName,omitempty"`

	// localPath has the operator create the volumes: local PersistentVolumes in the class "cachenode-local", on every node that
	// pod.nodeSelector and pod.affinity allow with placement.perNode, and otherwise on as many of these nodes as pods need and two
	// more. Not beside storageClassName.
	// +optional
	LocalPath *LocalPath `json:"localPath,omitempty"`

	// media is the kind of disk, HDD, SSD or NVMe; it picks the default number of threads. Default HDD.
	// +optional
	// +kubebuilder:default=HDD
	Media Media `json:"media,omitempty"`

	// weight is the disk's share of the keys in relation to the sum of all weights. Range 1 to 10000. Set it on every
	// disk or on none; by default shares are in proportion to the sizes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight *int32 `json:"weight,omitempty"`

	// threadPool is the disk's thread pool.
	// +optional
	// +kubebuilder:default={}
	ThreadPool ThreadPool `json:"threadPool,omitempty"`

	// cache bounds the disk's cache.
	// +optional
	// +kubebuilder:default={}
	Cache DiskCache `json:"cache,omitempty"`

	// health says when the disk is taken out of use and when it comes back.
	// +optional
	// +kubebuilder:default={}
	Health DiskHealth `json:"health,omitempty"`

	// foreignCache is what becomes of a cache on the disk that another CacheNode has marked as its own: Keep (default)
	// leaves it alone and does not use the disk; Empty deletes it and uses the disk. Only the folder "cachenode" on the
	// disk is ever touched.
	// +optional
	// +kubebuilder:default=Keep
	ForeignCache ForeignCache `json:"foreignCache,omitempty"`
}

// LocalPath is where a disk is found on each node.
type LocalPath struct {
	// path is the folder on the node at which the disk is mounted, such as /mnt/disk1. It is not made. It must lie directly
	// in a folder that the operator allows (its flag --local-path-prefixes, default /mnt), and must not overlap with the path
	// of another volume of the node. It cannot be changed. At most 255 characters.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_][-A-Za-z0-9._]*)+$')",message="path: must be an absolute path such as /mnt/disk1: letters, digits, points, hyphens and underscores, no part that begins with a point or hyphen, no slash at the end"
	Path string `json:"path"`

	// requireMountPoint says that path must be a mount of its own (default); a mere folder is then not used, so that a
	// cache never fills the node's root file system because a disk is missing. false allows a folder, and that it shares
	// the device of other disks or of the node, as health.device Shared does.
	// +optional
	// +kubebuilder:default=true
	RequireMountPoint *bool `json:"requireMountPoint,omitempty"`
}

// ForeignCache is Keep or Empty.
//
// +kubebuilder:validation:Enum=Keep;Empty
type ForeignCache string

const (
	// KeepForeign leaves another CacheNode's cache alone.
	KeepForeign ForeignCache = "Keep"
	// EmptyForeign deletes another CacheNode's cache.
	EmptyForeign ForeignCache = "Empty"
)

// DiskHealth are the thresholds by which the agent in the pod judges a disk. It writes a block of a file of its own, syncs
// it and reads the file back past the page cache.
type DiskHealth struct {
	// interval is the time between two probes of a disk that is well. From 500ms to 1m, default 1s.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('500ms') && duration(self) <= duration('1m'))",message="interval: must be from 500ms to 1m"
	Interval Duration `json:"interval,omitempty"`

	// timeout is how long a probe may take; one that takes longer has failed, and fails once more each time that it has
	// taken this long again. From 50ms to 1m. Default 2s for HDD and 1s for SSD and NVMe.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('50ms') && duration(self) <= duration('1m'))",message="timeout: must be from 50ms to 1m"
	Timeout Duration `json:"timeout,omitempty"`

	// failures is after how many failed probes in a row the disk is taken out of use. Range 1 to 100, default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Failures *int32 `json:"failures,omitempty"`

	// successes is after how many good probes in a row it is used again. The number doubles each time that the disk fails
	// within ten minutes of its return, at most to 64 times. Range 1 to 1000, default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Successes *int32 `json:"successes,omitempty"`

	// minFree is the free space below which the disk is taken out of use, before a response can break off for want of
	// space; it is used again above one and a half times that. It must be less than cache.minFree, which nginx keeps free
	// by evicting objects. Default 2% of the disk's size; 0 switches it off.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="minFree: must not be negative"
	MinFree *resource.Quantity `json:"minFree,omitempty"`

	// minFreeInodes is the share of free inodes, in percent, below which the disk is taken out of use; it is used again
	// above one and a half times that. Range 0 to 50, default 1; 0 switches it off.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	MinFreeInodes *int32 `json:"minFreeInodes,omitempty"`

	// device is Own (default): the disk must be a mount and a device of its own, neither that of another disk nor that of
	// the node's own volumes; or Shared: it may share a device, and then its failures.
	// +optional
	// +kubebuilder:default=Own
	Device DeviceRule `json:"device,omitempty"`
}

// DeviceRule is Own or Shared.
//
// +kubebuilder:validation:Enum=Own;Shared
type DeviceRule string

const (
	// OwnDevice asks for a device of the disk's own.
	OwnDevice DeviceRule = "Own"
	// SharedDevice lets the disk share a device.
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
	// threads is how many reads and writes of this disk are under way at once in each worker. Range 1 to 1024. Default
	// 64 for HDD (the article has 16), 32 for SSD and 64 for NVMe.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Threads *int32 `json:"threads,omitempty"`

	// maxQueue is how many tasks may wait for a thread. One more, and nginx would answer without this disk or, in the
	// middle of a body, break off; so it must not be less than listen.maxConnections, and no connection ever has more than
	// one task. Range 256 to 1048576, default 65536.
	// +optional
	// +kubebuilder:default=65536
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MaxQueue *int32 `json:"maxQueue,omitempty"`
}

// DiskCache becomes the parameters of proxy_cache_path.
type DiskCache struct {
	// maxSize is how much the cache files may take (max_size). nginx checks it now and then, not at each write. Default
	// 90% of the disk's size, or less if minFree leaves less; at most the disk's size. One that is more than the file system
	// turns out to have is refused.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="maxSize: must be at least 1Mi"
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`

	// minFree is how much of the file system nginx keeps free (min_free). Default what the medium can take in within the 10
	// seconds after which nginx looks again (1500Mi for HDD, 5000Mi for SSD, 20Gi for NVMe), at least 5% and at most 25% of
	// the disk's size; 0 switches it off.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="minFree: must not be negative"
	MinFree *resource.Quantity `json:"minFree,omitempty"`

	// keysZone is the shared memory for the index of the cache (keys_zone): about 8,000 keys in each mebibyte. A full
	// zone evicts objects that the disk has room for. The zones of all disks, and 18Mi or more
	// for nginx itself, must fit into the memory limit. At most 64Gi. Default a
	// 4096th of the disk's size, which is the article's 256 MiB for 1 TiB, at least 8Mi and at most 4Gi; less where the
	// default zones of all disks would take more than half of the memory limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Gi')) <= 0",message="keysZone: must be at least 1Mi and at most 64Gi"
	KeysZone *resource.Quantity `json:"keysZone,omitempty"`

	// inactive is after how long without a request an object is removed, fresh or not (inactive). Default 168h.
	// +optional
	// +kubebuilder:default="168h"
	Inactive Duration `json:"inactive,omitempty"`
}
