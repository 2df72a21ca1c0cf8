package manifest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestAgentMemory checks that the default memory limit of the agent has room for the soft limit, and for nginx -t with
// the largest index on each disk. It must also have room for the memory that Go uses above the soft limit while indexes
// are rebuilt.
func TestAgentMemory(t *testing.T) {
	t.Parallel()
	for disks := 1; disks <= 32; disks++ {
		container := agentContainer(PodInput{Disks: make([]TemplateDisk, disks)})
		limit, request := container.Resources.Limits.Memory(), container.Resources.Requests.Memory()
		soft := resource.MustParse(AgentMemoryLimit(disks)[:len(AgentMemoryLimit(disks))-1]) // Go's MiB is Mi here
		const over, program, index = 12 << 20, 8 << 20, 24 << 20
		needed := soft.Value() + over + program + int64(disks)*index
		if limit.Value() < needed || limit.Cmp(*request) < 0 {
			t.Errorf("%d disks: the limit is %s, want at least %d MiB and the request %s", disks, limit, needed>>20, request)
		}
	}
	in := PodInput{Disks: make([]TemplateDisk, 2)}
	in.Pod.AgentResources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	if limits := agentContainer(in).Resources.Limits; len(limits) > 0 {
		t.Errorf("beside the spec's own requests, there are the limits %v", limits)
	}
}
