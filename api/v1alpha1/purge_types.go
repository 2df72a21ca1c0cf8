package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CachePurge removes objects from the cache of a CacheNode: from all disks of all pods, including pods that are down.
// The operator carries it out once. Its spec cannot be changed, so the same CachePurge can be applied again and
// again, for example from git.
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

	// spec defines which objects are purged.
	// +required
	Spec CachePurgeSpec `json:"spec"`

	// status shows the progress of the purge. Until the operator handles the purge for the first time,
	// observedGeneration is -1, so that kstatus reports InProgress.
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

// CachePurgeSpec defines which objects are purged. An object is purged if an entry of at least one list matches it.
// The spec cannot be changed.
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
	// Each URL matches its object for HTTP, HTTPS and every method. It also matches all variants (Vary) and slices of the
	// object. A port in the URL does not matter. At most 1000 URLs. urls, prefixes, hosts and tags together contain at
	// most 256 KiB of text.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^https?://[!"$-.0->A-~]+([/?][!"$-~]*)?$'))`,message="urls: each must be http:// or https:// and a host, percent-encoded, without a user and a fragment"
	URLs []string `json:"urls,omitempty"`

	// prefixes are the beginnings of URLs, such as https://www.example.com/img/. A prefix must end within the path of the
	// URL, and must contain at least one character of the path after the first slash. Prefixes are compared character by
	// character, so /img also matches /images. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^https?://[!"$-.0->A-~]+/[!"$->@-~]+$'))`,message="prefixes: each must be http:// or https://, a host and the beginning of a path, percent-encoded, without a query string; name whole hosts in hosts"
	Prefixes []string `json:"prefixes,omitempty"`

	// hosts are names of hosts, such as www.example.com. All objects of these hosts are purged. The key of the CacheNode
	// (spec.cache.key) must contain Host. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.map(x, x.size()).sum() > 262144 || self.all(x, x.matches(r'^[A-Za-z0-9_]([-A-Za-z0-9._]*[A-Za-z0-9_])?$'))`,message="hosts: each must be the name of a host, without scheme, port, path and *"
	Hosts []string `json:"hosts,omitempty"`

	// tags are the tags of the objects to purge. The origin sends the tags of an object in the headers that
	// spec.purge.tagHeaders of the CacheNode names. Each tag has 1 to 256 bytes, without spaces and commas. If an object
	// has more than 128 tags, or a tag of more than 256 bytes, every purge with tags matches the object. At most 1000.
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

	// mode is Hard (default) or Soft. Hard removes objects, so the next request for an object fetches it. Soft makes
	// objects stale, so the next request for an object asks the origin whether it has changed. During this request, or
	// while the origin fails, the cache may serve the stale object, as spec.cache allows.
	// +optional
	// +kubebuilder:default=Hard
	Mode PurgeMode `json:"mode,omitempty"`

	// ttlSecondsAfterFinished is the number of seconds after which the operator deletes a CachePurge that is Settled or
	// Failed. Unset means that the CachePurge stays or, if its CacheNode does not exist, that it is deleted after a day.
	// Range 0 to 2592000 (30 days).
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

// CachePurgeStatus shows the progress of a purge.
type CachePurgeStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// number is the place of the purge in the CacheNode's journal. Unset while the purge has no place yet.
	// +optional
	Number int64 `json:"number,omitempty"`

	// phase is Pending, Applied, Settled or Failed. Applied means that no pod serves the purged objects any more. If an
	// outdated response arrives from the origin later, it is removed as soon as it is stored. Settled means that no cache
	// contains a matching response that the origin sent before the purge or within spec.purge.grace after the purge.
	// Failed means that the purge was not carried out; message contains the reason.
	// +optional
	Phase PurgePhase `json:"phase,omitempty"`

	// message says why the purge is pending or has failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// appliedAt is the time at which phase Applied began.
	// +optional
	AppliedAt *metav1.MicroTime `json:"appliedAt,omitempty"`

	// settledAt is the time at which phase Settled began.
	// +optional
	SettledAt *metav1.MicroTime `json:"settledAt,omitempty"`

	// files is the number of files that were removed or made stale, over all pods. Each slice and each variant of an
	// object is a file of its own, and copies in memory count too.
	// +optional
	Files int64 `json:"files,omitempty"`

	// bytes is the total size of the files that the field files counts.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// slowestPod is the pod for which the purge waits or, after the purge is applied, the pod that was the last to apply
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	SlowestPod string `json:"slowestPod,omitempty"`

	// pods shows the progress of each pod. At most 100 pods are listed, beginning with the pods that are behind.
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

// PurgePhase is a phase of a purge.
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

// PurgePodStatus shows the progress of a purge in a pod.
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

	// appliedAt is the time at which the operator learned from the pod's agent that the pod has applied the purge. Unset
	// while phase is Pending.
	// +optional
	AppliedAt *metav1.MicroTime `json:"appliedAt,omitempty"`

	// disks are the disks that had files of purged objects, and the disks that are Pending. At most 256 disks are
	// listed, over all pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=33
	Disks []PurgeDiskStatus `json:"disks,omitempty"`
}

// PurgeDiskStatus shows the progress of a purge on a disk of a pod.
type PurgeDiskStatus struct {
	// name is the disk's name, or memory-tier for the memory tier.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// phase is Pending, Applied or Settled. For a disk that nginx does not use, phase is the phase of its pod. Such a
	// disk catches up before nginx uses it again.
	// +required
	Phase PurgePhase `json:"phase"`

	// files is the number of files that were removed or made stale.
	// +optional
	Files int64 `json:"files,omitempty"`

	// bytes is the total size of the files that the field files counts.
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

// UnsafeMethods decides what happens to cached objects after a request that can change something at the origin.
type UnsafeMethods string

// The values of UnsafeMethods.
const (
	UnsafeMakeStale UnsafeMethods = "MakeStale"
	UnsafeIgnore    UnsafeMethods = "Ignore"
)

// Unindexed decides whether a disk serves its objects while its index is incomplete and a purge waits for the index.
type Unindexed string

// The values of Unindexed.
const (
	UnindexedHide Unindexed = "Hide"
	UnindexedWait Unindexed = "Wait"
)

// Purge configures how purges work. Purges are always enabled.
type Purge struct {
	// grace is the longest time for which responses that the origin made before a purge may still arrive. This time
	// begins when the purge is applied. During this time, objects that match the purge are not cached. Range 2s to 10m,
	// default 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2s') && duration(self) <= duration('10m')",message="grace: must be from 2s to 10m"
	Grace Duration `json:"grace,omitempty"`

	// unsafeMethods decides what a successful POST, PUT, PATCH or DELETE request of a client does to the cached objects of
	// its URL. With MakeStale, the pod that received the request makes these objects stale at once, and the other pods do
	// so within some seconds. An overloaded agent may lose some of these requests. With Ignore, the objects stay as they
	// are. Default MakeStale (RFC 9111, section 4.4).
	// +optional
	// +kubebuilder:validation:Enum=MakeStale;Ignore
	UnsafeMethods UnsafeMethods `json:"unsafeMethods,omitempty"`

	// unindexed applies while the index of a disk is being rebuilt and a purge of tags, prefixes or hosts waits for the
	// index. It decides whether the disk serves its objects during this time. With Hide, all objects of the disk become
	// misses after ten seconds, until the index is complete and the purge is applied. With Wait, the disk serves all its
	// objects as before, including purged objects. In both cases, the purge is Pending until the index is complete. A disk
	// that nginx does not use yet also stays out of use until the index is complete, but with Hide for at most a minute.
	// The same applies to the disks of a pod that waits for the journal of purges. Default Hide.
	// +optional
	// +kubebuilder:validation:Enum=Hide;Wait
	Unindexed Unindexed `json:"unindexed,omitempty"`

	// tagHeaders are the response headers in which the origin sends the tags of an object, separated by spaces or
	// commas. Clients do not see these headers. After a change, the agents read all stored objects again. At most 4,
	// default Surrogate-Key and Cache-Tag.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][-A-Za-z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(h, !h.lowerAscii().startsWith('x-cachenode-') && !h.lowerAscii().startsWith('x-accel-'))",message="tagHeaders: headers that begin with X-CacheNode- or X-Accel- are CacheNode's own and nginx's: choose another"
	TagHeaders []string `json:"tagHeaders,omitempty"`
}
