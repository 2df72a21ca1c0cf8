package agentapi

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Report is what an agent says of its pod. It holds only what changes when something happens: numbers that move all the
// time are metrics.
type Report struct {
	// AgentVersion and NginxVersion are the programs'; the latter is "" until nginx -v has answered.
	AgentVersion string `json:"agentVersion,omitempty"`
	NginxVersion string `json:"nginxVersion,omitempty"`
	// Revision is the revision of the configuration that nginx's workers answer with; "" while none does.
	Revision string `json:"revision,omitempty"`
	// Since is when they first answered with it.
	Since time.Time `json:"since,omitzero"`
	// Refusal is the revision that the agent was last asked for and that nginx did not take.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Problem is what keeps the agent from its work, such as a revision that it cannot read.
	Problem string `json:"problem,omitempty"`
	// Lowered says which limits of the spec the disks cannot hold, so that nginx runs with lower ones.
	Lowered string       `json:"lowered,omitempty"`
	Disks   []DiskReport `json:"disks,omitempty"`
}

// Refusal is a revision that nginx did not take, and what it said.
type Refusal struct {
	Revision string `json:"revision"`
	// Pod is set by the operator; an agent speaks for its own pod.
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
	// Retry is the value of the pod's annotation cachenode.io/retry when it was tried.
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
	// Share is the part of the keys that the disk has in the running configuration, in hundredths of a percent.
	Share int `json:"share"`
	// ForeignOwner is the CacheNode, as NAMESPACE/NAME, whose cache is on the disk, where that is why it is not used.
	ForeignOwner string `json:"foreignOwner,omitempty"`
	// Size is the file system's, in bytes; 0 where it is not known.
	Size int64 `json:"size,omitempty"`
	// UsedPercent is how much of it is in use. It is rounded, as a report holds nothing that moves all the time.
	UsedPercent int `json:"usedPercent,omitempty"`
	// FileSystem says what a hit costs the disk; nil where it is not known.
	FileSystem *tuning.FileSystem `json:"fileSystem,omitempty"`
	// NeedsNewPod: the disk cannot come back, not even repaired, as long as this pod has it mounted.
	NeedsNewPod bool `json:"needsNewPod,omitempty"`
}

// ReportPath is where the agent serves its report.
const ReportPath = "/v1/report"
