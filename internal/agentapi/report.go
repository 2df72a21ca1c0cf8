package agentapi

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Report is what an agent reports about its pod. It has only fields that change on events. Numbers that change all the
// time are metrics.
type Report struct {
	// AgentVersion and NginxVersion are the versions of the programs. NginxVersion is "" until nginx -v has answered.
	AgentVersion string `json:"agentVersion,omitempty"`
	NginxVersion string `json:"nginxVersion,omitempty"`
	// Renderer is the constant Renderer of the agent's code; 0 from agents that do not know it.
	Renderer int `json:"renderer,omitempty"`
	// Features are what the agent can do beyond what every agent can. The operator uses a feature if all agents have it.
	Features []string `json:"features,omitempty"`
	// Revision is the revision of the configuration that nginx's workers run, as they answer; "" while none answers.
	Revision string `json:"revision,omitempty"`
	// Since is when the workers first answered with Revision.
	Since time.Time `json:"since,omitzero"`
	// FleetSerial is the serial of the fleet by which nginx's workers route, see package fleet; 0 if they do not.
	FleetSerial int64 `json:"fleetSerial,omitempty"`
	// Refusal is the last wanted revision, if it was refused.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Problem is an error that stops the agent's work, such as a revision that it cannot read.
	Problem string `json:"problem,omitempty"`
	// Lowered names the limits of the spec that the disks cannot hold. nginx runs with lower limits.
	Lowered string `json:"lowered,omitempty"`
	// OpenFiles is how many files each of nginx's processes may have open at most; 0 if that is not known.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// Purged is the last place in the journal of purges up to which the pod obeys it, see package purge. PurgeHead is the
	// last place that the pod has heard of.
	Purged    int64 `json:"purged,omitempty"`
	PurgeHead int64 `json:"purgeHead,omitempty"`
	// Unsafe are the last URLs at which clients have changed something at the origin, the newest one last. What is cached
	// for them is to become stale.
	Unsafe []UnsafeURL  `json:"unsafe,omitempty"`
	Disks  []DiskReport `json:"disks,omitempty"`
}

// MaxUnsafe is how many URLs a report has, and MaxUnsafeBytes how many bytes they have together.
const (
	MaxUnsafe      = 100
	MaxUnsafeBytes = 64 << 10
)

// UnsafeURL is a URL with a number, which grows.
type UnsafeURL struct {
	Number int64  `json:"number"`
	URL    string `json:"url"`
}

// Refusal is a revision that was refused, and why.
type Refusal struct {
	Revision string `json:"revision"`
	// Pod is set by the operator. An agent leaves it empty.
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
	// Retry is the value that the pod's annotation cachenode.io/retry had when the revision was tried.
	Retry string `json:"retry,omitempty"`
}

// DiskReport is the state of a disk.
type DiskReport struct {
	Name    string              `json:"name"`
	State   v1alpha1.DiskState  `json:"status"`
	Reason  v1alpha1.DiskReason `json:"reason,omitempty"`
	Message string              `json:"message,omitempty"`
	// Since is when State last changed.
	Since time.Time `json:"since,omitzero"`
	// Share is the disk's share of the keys in the running configuration, in hundredths of a percent.
	Share int `json:"share"`
	// ForeignOwner is the CacheNode, as NAMESPACE/NAME, whose cache is on the disk; "" unless the disk failed for that
	// reason.
	ForeignOwner string `json:"foreignOwner,omitempty"`
	// Size is the size of the file system in bytes; 0 if it is not known.
	Size int64 `json:"size,omitempty"`
	// CacheBytes is the size of the cache's files in bytes, estimated and rounded down, so that the report does not change
	// all the time. It is nil until the first estimate, and in the reports of agents that do not know the field.
	CacheBytes *int64 `json:"cacheBytes,omitempty"`
	// UsedPercent is the part of Size that is in use, by the cache and by others. It is rounded.
	UsedPercent int `json:"usedPercent,omitempty"`
	// FileSystem has the properties that decide what a hit costs the disk; nil if they are not known.
	FileSystem *effective.FileSystem `json:"fileSystem,omitempty"`
	// NeedsNewPod is true if the disk, even repaired, cannot come back while this pod has it mounted.
	NeedsNewPod bool `json:"needsNewPod,omitempty"`
}

// FeatureRouting is the feature of agents that know routing.mode Sharded.
const FeatureRouting = "routing"

// FeatureNoScripts is the feature of pods whose nginx is known to lack the module for scripts: see Module in package
// cache.
const FeatureNoScripts = "no-scripts"

// FeatureLeaving is the feature of agents that know disks that leave: see [effective.Leaves].
const FeatureLeaving = "leaving"

// FeaturePurge is the feature of agents that carry out purges.
const FeaturePurge = "purge"

// ReportPath is where the agent serves its report.
const ReportPath = "/v1/report"
