package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CachePurge removes objects from the cache of a CacheNode: from all disks of all pods, also of those that are down. It
// is carried out once. Its spec never changes, so it can be applied again and again, for example from git.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cp,categories=all
// +kubebuilder:printcolumn:name="CacheNode",type=string,JSONPath=`.spec.cacheNode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Files",type=integer,JSONPath=`.status.files`
// +kubebuilder:printcolumn:name="Slowest",type=string,priority=1,JSONPath=`.status.slowestPod`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CachePurge struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is purged.
	// +required
	Spec CachePurgeSpec `json:"spec"`

	// status is how far the purge has come. Until the operator has looked, observedGeneration is -1, so that kstatus
	// reports InProgress.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status CachePurgeStatus `json:"status,omitempty"`
}

// CachePurgeList is a list of CachePurges.
//
// +kubebuilder:object:root=true
type CachePurgeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CachePurge `json:"items"`
}

// CachePurgeSpec says what is purged. An object is purged if it is in one of the lists. The spec cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another CachePurge"
// +kubebuilder:validation:XValidation:rule="(has(self.urls) && self.urls.size() > 0) || (has(self.prefixes) && self.prefixes.size() > 0) || (has(self.hosts) && self.hosts.size() > 0) || (has(self.tags) && self.tags.size() > 0) || (has(self.everything) && self.everything)",message="names nothing: set urls, prefixes, hosts, tags or everything"
// +kubebuilder:validation:XValidation:rule="!has(self.everything) || !self.everything || !(has(self.urls) || has(self.prefixes) || has(self.hosts) || has(self.tags))",message="everything: goes alone: remove urls, prefixes, hosts and tags"
// +kubebuilder:validation:XValidation:rule="(has(self.urls) ? self.urls.map(x, x.size()).sum() : 0) + (has(self.prefixes) ? self.prefixes.map(x, x.size()).sum() : 0) + (has(self.hosts) ? self.hosts.map(x, x.size()).sum() : 0) + (has(self.tags) ? self.tags.map(x, bytes(x).size()).sum() : 0) <= 262144",message="names more than 262144 bytes of URLs, prefixes, hosts and tags: create several CachePurges"
type CachePurgeSpec struct {
	// cacheNode is the name of the CacheNode, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	CacheNode string `json:"cacheNode"`

	// urls are URLs as clients send them: http or https, percent-encoded, with the query string and without a fragment.
	// Each stands for the object by both schemes and by any method, with all of its variants (Vary) and slices. A port
	// does not matter. At most 1000; with prefixes, hosts and tags at most 256 KiB of text.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^https?://[!"$-.0->A-~]+([/?][!"$-~]*)?$'))`,message="urls: each must be http:// or https:// and a host, percent-encoded, without a user and a fragment"
	URLs []string `json:"urls,omitempty"`

	// prefixes are the beginnings of URLs, such as https://www.example.com/img/. They end in the path, which must have
	// more than the first slash. They are compared character by character: /img also stands for /images. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^https?://[!"$-.0->A-~]+/[!"$->@-~]+$'))`,message="prefixes: each must be http:// or https://, a host and the beginning of a path, percent-encoded, without a query string; name whole hosts in hosts"
	Prefixes []string `json:"prefixes,omitempty"`

	// hosts are names of hosts, such as www.example.com, all of whose objects are purged. The key of the CacheNode
	// (spec.cache.key) must have Host. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^[A-Za-z0-9_]([-A-Za-z0-9._]*[A-Za-z0-9_])?$'))`,message="hosts: each must be the name of a host, without scheme, port, path and *"
	Hosts []string `json:"hosts,omitempty"`

	// tags are tags that the origin has given to objects, by the headers that spec.purge.tagHeaders of the CacheNode
	// names. Each has 1 to 256 bytes, and no space and no comma. An object with more than 128 tags, or with a longer one,
	// is purged by any tag. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^[^,\x00-\x20\x7f]+$'))`,message="tags: none may have a space, a comma or a control character"
	Tags []string `json:"tags,omitempty"`

	// everything purges all objects of the CacheNode. Default false.
	// +optional
	Everything bool `json:"everything,omitempty"`

	// mode is Hard (default) or Soft. Hard removes objects: the next request fetches them. Soft makes them stale: the next
	// request asks the origin whether they have changed. The cache may serve them while it asks, or while the origin
	// fails, as spec.cache allows for stale objects.
	// +optional
	// +kubebuilder:default=Hard
	Mode PurgeMode `json:"mode,omitempty"`

	// ttlSecondsAfterFinished is after how many seconds the CachePurge is deleted once it is Settled or Failed. Unset, it
	// stays. Range 0 to 2592000 (30 days).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// PurgeMode is Hard or Soft.
//
// +kubebuilder:validation:Enum=Hard;Soft
type PurgeMode string

// The modes of a purge.
const (
	// PurgeHard removes objects.
	PurgeHard PurgeMode = "Hard"
	// PurgeSoft makes objects stale.
	PurgeSoft PurgeMode = "Soft"
)

// CachePurgeStatus is how far a purge has come.
type CachePurgeStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// number is the place of the purge in the CacheNode's journal. Unset until it has one.
	// +optional
	Number int64 `json:"number,omitempty"`

	// phase is Pending, Applied, Settled or Failed. Applied: no pod serves what was purged, and what arrives late is
	// removed when it is stored. Settled: nothing is left of responses that the origin sent before the purge and within
	// spec.purge.grace after it. Failed: the purge was not carried out; message says why.
	// +optional
	Phase PurgePhase `json:"phase,omitempty"`

	// message says why the purge is pending or has failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// appliedAt is when phase Applied began.
	// +optional
	AppliedAt *metav1.MicroTime `json:"appliedAt,omitempty"`

	// settledAt is when phase Settled began.
	// +optional
	SettledAt *metav1.MicroTime `json:"settledAt,omitempty"`

	// files is how many files were removed or made stale, over all pods. Each slice and each variant of an object is a
	// file of its own, and copies in memory count too.
	// +optional
	Files int64 `json:"files,omitempty"`

	// bytes is the size of these files.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// slowestPod is the pod that is waited for or, once the purge is applied, the pod that was the last to apply it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	SlowestPod string `json:"slowestPod,omitempty"`

	// pods says how far each pod has come. At most 100 are listed, those that are behind first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Pods []PurgePodStatus `json:"pods,omitempty"`

	// conditions are Applied, Settled, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PurgePhase is how far a purge has come.
//
// +kubebuilder:validation:Enum=Pending;Applied;Settled;Failed
type PurgePhase string

// The phases of a purge.
const (
	PurgePending PurgePhase = "Pending"
	PurgeApplied PurgePhase = "Applied"
	PurgeSettled PurgePhase = "Settled"
	PurgeFailed  PurgePhase = "Failed"
)

// PurgePodStatus is how far a purge has come in a pod.
type PurgePodStatus struct {
	// name is the pod's name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// phase is Pending, Applied or Settled.
	// +required
	Phase PurgePhase `json:"phase"`

	// message says what the pod waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// appliedAt is when the operator learned from the pod's agent that the pod has applied the purge. Unset while it is
	// Pending.
	// +optional
	AppliedAt *metav1.MicroTime `json:"appliedAt,omitempty"`

	// disks are the disks that had something of what is purged, and those that are behind. At most 256 are listed, over
	// all pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=33
	Disks []PurgeDiskStatus `json:"disks,omitempty"`
}

// PurgeDiskStatus is how far a purge has come on a disk of a pod.
type PurgeDiskStatus struct {
	// name is the disk's name, or memory-tier.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// phase is Pending, Applied or Settled. A disk that nginx does not use is as far as its pod; before nginx uses it
	// again, it catches up.
	// +required
	Phase PurgePhase `json:"phase"`

	// files is how many files were removed or made stale.
	// +optional
	Files int64 `json:"files,omitempty"`

	// bytes is the size of these files.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// message says what the disk waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// Conditions of a CachePurge, besides Reconciling and Stalled.
const (
	// ConditionApplied is True from phase Applied on.
	ConditionApplied = "Applied"
	// ConditionSettled is True in phase Settled.
	ConditionSettled = "Settled"
)

// UnsafeMethods says what requests do that can change something at the origin.
type UnsafeMethods string

// The values of UnsafeMethods.
const (
	UnsafeMakeStale UnsafeMethods = "MakeStale"
	UnsafeIgnore    UnsafeMethods = "Ignore"
)

// Unindexed says whether a disk serves what it has while its index is incomplete and a purge waits for it.
type Unindexed string

// The values of Unindexed.
const (
	UnindexedHide Unindexed = "Hide"
	UnindexedWait Unindexed = "Wait"
)

// Purge says how purges work. They need no switch.
type Purge struct {
	// grace is how long responses that the origin made before a purge may take to arrive, measured from when the purge is
	// applied. Objects that a purge is about are not cached during that time. Range 2s to 10m, default 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2s') && duration(self) <= duration('10m')",message="grace: must be from 2s to 10m"
	Grace Duration `json:"grace,omitempty"`

	// unsafeMethods says what a successful POST, PUT, PATCH or DELETE of a client does to what is cached for its URL. The
	// pod that it came to makes that stale at once, the others within some seconds; an agent that is overloaded forgets
	// some. Ignore leaves it as it is. Default MakeStale (RFC 9111, section 4.4).
	// +optional
	// +kubebuilder:validation:Enum=MakeStale;Ignore
	UnsafeMethods UnsafeMethods `json:"unsafeMethods,omitempty"`

	// unindexed says whether a disk serves what it has while its index is being rebuilt and a purge of tags, prefixes or
	// hosts waits for the index. Hide: after ten seconds, all objects of the disk are misses until the index is complete
	// and the purge is applied. Wait: they are served as before, those that were purged too. In both cases, the purge
	// stays Pending meanwhile. A disk that nginx does not use yet stays out of use, with Hide for at most a minute; so
	// does the disk of a pod that waits for the journal of purges. Default Hide.
	// +optional
	// +kubebuilder:validation:Enum=Hide;Wait
	Unindexed Unindexed `json:"unindexed,omitempty"`

	// tagHeaders are the headers of responses with the tags of an object, separated by spaces or commas. Clients
	// do not see them. The agents read all objects again after a change. At most 4, default Surrogate-Key and Cache-Tag.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][-A-Za-z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(h, !h.lowerAscii().startsWith('x-cachenode-') && !h.lowerAscii().startsWith('x-accel-'))",message="tagHeaders: headers that begin with X-CacheNode- or X-Accel- are CacheNode's own and nginx's: choose another"
	TagHeaders []string `json:"tagHeaders,omitempty"`
}
