package agentapi

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Report is what an agent reports about its pod. Its fields change seldom. Numbers that change all the time are
// rounded, or are metrics instead.
type Report struct {
	// AgentVersion and NginxVersion are the versions of the agent and of nginx. NginxVersion is "" until nginx -v has
	// answered.
	AgentVersion string `json:"agentVersion,omitempty"`
	NginxVersion string `json:"nginxVersion,omitempty"`
	// Renderer is the constant Renderer of the agent's code; 0 for agents that are older than the constant.
	Renderer int `json:"renderer,omitempty"`
	// Features are the abilities of the agent that not every agent has. The operator uses a feature only if all agents
	// have it.
	Features []string `json:"features,omitempty"`
	// Revision is the revision of the configuration that nginx's workers run, according to their own answers; "" while
	// no worker answers.
	Revision string `json:"revision,omitempty"`
	// Since is the time at which the workers first answered with Revision.
	Since time.Time `json:"since,omitzero"`
	// FleetSerial is the serial of the fleet by which nginx's workers route requests, see package fleet; 0 if they do
	// not route.
	FleetSerial int64 `json:"fleetSerial,omitempty"`
	// Refusal describes why nginx refused the last wanted revision; nil if that revision was not refused.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Problem is an error that stops the agent's work, such as a revision that the agent cannot read.
	Problem string `json:"problem,omitempty"`
	// Lowered says which limits of the spec are too high for the disks. nginx runs with lower limits.
	Lowered string `json:"lowered,omitempty"`
	// OpenFiles is the maximum number of files that each nginx process may have open; 0 if it is not known.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// Purged is the place in the journal of purges up to which the pod obeys the journal, see package purge. PurgeHead
	// is the last place that the pod knows of.
	Purged    int64 `json:"purged,omitempty"`
	PurgeHead int64 `json:"purgeHead,omitempty"`
	// Unsafe are the last URLs at which clients have changed something at the origin, the newest one last. The cached
	// objects of these URLs must become stale.
	Unsafe []UnsafeURL  `json:"unsafe,omitempty"`
	Disks  []DiskReport `json:"disks,omitempty"`
}

// MaxUnsafe is the maximum number of URLs in a report, and MaxUnsafeBytes is their maximum total size in bytes.
const (
	MaxUnsafe      = 100
	MaxUnsafeBytes = 64 << 10
)

// UnsafeURL is a URL at which a client has changed something at the origin. Number grows with each change, also across
// restarts of the agent.
type UnsafeURL struct {
	Number int64  `json:"number"`
	URL    string `json:"url"`
}

// Refusal is a refused revision, with the reason.
type Refusal struct {
	Revision string `json:"revision"`
	// Pod is set by the operator. An agent leaves it empty.
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
	// Routes are the IDs of the routes that made nginx refuse the revision. Without them, nginx takes it. The list
	// is empty if the reason is another, or is not known.
	Routes []string `json:"routes,omitempty"`
	// Retry is the value that the pod's annotation cachenode.io/retry had when the agent tried the revision.
	Retry string `json:"retry,omitempty"`
}

// DiskReport is the state of a disk.
type DiskReport struct {
	Name    string              `json:"name"`
	State   v1alpha1.DiskState  `json:"status"`
	Reason  v1alpha1.DiskReason `json:"reason,omitempty"`
	Message string              `json:"message,omitempty"`
	// Since is the time at which State last changed.
	Since time.Time `json:"since,omitzero"`
	// Share is the disk's share of the keys in the running configuration, in hundredths of a percent.
	Share int `json:"share"`
	// ForeignOwner is the CacheNode that owns the cache on the disk, as NAMESPACE/NAME. It is "" unless the disk failed
	// because its cache belongs to another CacheNode.
	ForeignOwner string `json:"foreignOwner,omitempty"`
	// Size is the size of the file system in bytes; 0 if it is not known.
	Size int64 `json:"size,omitempty"`
	// CacheBytes is the estimated size of the cache's files in bytes. It is rounded down, so that the report does not
	// change all the time. It is nil until the first estimate, and in the reports of agents that do not know the field.
	CacheBytes *int64 `json:"cacheBytes,omitempty"`
	// UsedPercent is the percentage of Size that the cache and other files use. It is rounded.
	UsedPercent int `json:"usedPercent,omitempty"`
	// FileSystem contains the properties that determine how much work a hit causes on the disk; nil if they are not
	// known.
	FileSystem *effective.FileSystem `json:"fileSystem,omitempty"`
	// NeedsNewPod is true if the disk, even after a repair, cannot be used again while this pod has it mounted.
	NeedsNewPod bool `json:"needsNewPod,omitempty"`
}

// FeatureRouting is the feature of agents that support routing.mode Sharded.
const FeatureRouting = "routing"

// FeatureNoScripts is the feature of pods whose nginx is known to lack the module for scripts: see Module in package
// cache.
const FeatureNoScripts = "no-scripts"

// FeaturePolicies is the feature of agents that follow the policies of routes.
const FeaturePolicies = "policies"

// FeatureLeaving is the feature of agents that support leaving disks: see [effective.Leaves].
const FeatureLeaving = "leaving"

// FeaturePurge is the feature of agents that carry out purges.
const FeaturePurge = "purge"

// ReportPath is the URL path at which the agent serves its report.
const ReportPath = "/v1/report"
