package effective

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func tiered(limit string, change func(*v1alpha1.CacheNodeSpec)) v1alpha1.CacheNodeSpec {
	spec := v1alpha1.CacheNodeSpec{Disks: []v1alpha1.Disk{sized(1<<30, func(d *v1alpha1.Disk) { d.Media = v1alpha1.SSD })}}
	spec.MemoryTier.MaxObjectSize = new(resource.MustParse("1Mi"))
	if limit != "" {
		spec.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	if change != nil {
		change(&spec)
	}
	return spec
}

func TestResolve(t *testing.T) {
	on := func(s *v1alpha1.CacheNodeSpec) { s.MemoryTier.Enabled = new(true) }
	nvme := func(s *v1alpha1.CacheNodeSpec) {
		s.Disks[0].Media = v1alpha1.NVMe
		s.Pod.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	}
	tests := map[string]struct {
		limit  string
		change func(*v1alpha1.CacheNodeSpec)
		before Serving
		size   string
		mode   v1alpha1.IOMode
		says   string
	}{
		"a new one has a quarter of the limit": {
			"700Mi", nil, Nothing, "175Mi", v1alpha1.IOThreads,
			"memoryTier is on: 175Mi in memory, for objects of up to 1Mi",
		},
		"a new one whose caches fit into memory needs none": {
			"1Gi", nil, Nothing, "", v1alpha1.IODirect,
			"memoryTier is off: the pages of all caches are in memory anyway",
		},
		"one that had a tier keeps it": {
			"1Gi", nil, WithTier, "256Mi", v1alpha1.IOThreads,
			"memoryTier is on: 256Mi",
		},
		"a new one may have one all the same": {
			"1Gi", on, Nothing, "256Mi", v1alpha1.IOThreads,
			"memoryTier is on: 256Mi",
		},
		"one of before tiers has none": {
			"1Gi", nil, WithoutTier, "", v1alpha1.IODirect,
			"io.mode is Direct: the caches, 768Mi together, fit into the 1007Mi of memory",
		},
		"what memory is for": {
			"1Gi", on, Nothing, "256Mi", v1alpha1.IOThreads,
			"memory limit 1Gi: nginx takes 18Mi with one worker, and more with each other worker, as there is no CPU limit, " +
				"8Mi of it for keys zones; the memory tier and its index take 272Mi, " +
				"and a response from it up to 64Ki while it lasts; 734Mi are left for the page cache",
		},
		"no limit": {
			"", nil, Nothing, "128Mi", v1alpha1.IOThreads,
			"without a memory limit it is not known",
		},
		"asked for": {
			"1Gi", on, WithoutTier, "256Mi", v1alpha1.IOThreads,
			"do not fit into the 734Mi",
		},
		"asked for, but there is no room": {
			"40Mi", on, WithoutTier, "", v1alpha1.IOThreads,
			"memoryTier is off: the memory limit, or half of the memory request, leaves too little",
		},
		"switched off": {
			"1Gi", func(s *v1alpha1.CacheNodeSpec) { s.MemoryTier.Enabled = new(false) }, Nothing, "", v1alpha1.IODirect,
			"memoryTier is off",
		},
		"a key with the method": {
			"1Gi", func(s *v1alpha1.CacheNodeSpec) {
				s.Cache.Key = []v1alpha1.KeyPart{v1alpha1.KeyURI, v1alpha1.KeyMethod}
			}, Nothing, "", v1alpha1.IODirect, "cache.key has Method",
		},
		"a size of its own": {
			"1Gi", func(s *v1alpha1.CacheNodeSpec) { s.MemoryTier.Size = new(resource.MustParse("64Mi")) }, Nothing,
			"64Mi", v1alpha1.IODirect, "64Mi in memory",
		},
		"a hard disk": {
			"1Gi", func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Media = v1alpha1.HDD }, WithoutTier, "", v1alpha1.IOThreads,
			"a hard disk that is slow or hangs",
		},
		"NVMe, and memory for responses": {
			"300Mi", nvme, Nothing, "", v1alpha1.IOWorkers,
			"left for the page cache and for responses, each of which takes up to 256Ki while it lasts\n" +
				"io.mode is Workers: all disks are NVMe, which answer so fast that a thread switch costs more than the wait\n" +
				"memoryTier is off: an object on a disk of io.mode Workers hardly waits",
		},
		"NVMe, and the caches fit into memory": {"1Gi", nvme, Nothing, "", v1alpha1.IODirect, "io.mode is Direct"},
		"NVMe, and Workers before":             {"300Mi", nvme, WithWorkers, "", v1alpha1.IOWorkers, "io.mode is Workers"},
		"NVMe, and pools before": {
			"300Mi", nvme, WithoutTier, "", v1alpha1.IOThreads,
			"and its pods were not in mode Workers so far; set io.mode to Workers if you want that",
		},
		"NVMe, and too little memory for responses": {
			"150Mi", nvme, WithWorkers, "", v1alpha1.IOThreads,
			"and mode Workers would leave 118Mi of memory, and 128Mi are needed for responses in progress",
		},
		"NVMe with a tier from before": {
			"300Mi", nvme, WithTier, "75Mi", v1alpha1.IOThreads, "and there is a memory tier",
		},
		"NVMe with a tier of its own": {
			"300Mi", func(s *v1alpha1.CacheNodeSpec) { nvme(s); on(s) }, Nothing, "75Mi", v1alpha1.IOThreads, "memoryTier is on",
		},
		"NVMe without a CPU limit": {
			"300Mi", func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Media = v1alpha1.NVMe }, WithWorkers, "", v1alpha1.IOThreads,
			"without a CPU limit the number of workers is not known",
		},
		"NVMe beside an SSD": {"300Mi", func(s *v1alpha1.CacheNodeSpec) {
			nvme(s)
			s.Disks = append(s.Disks, sized(1<<30, func(d *v1alpha1.Disk) { d.Name, d.Media = "disk2", v1alpha1.SSD }))
		}, WithWorkers, "", v1alpha1.IOThreads, "not all disks are NVMe"},
		"workers, whatever the disks": {
			"300Mi", func(s *v1alpha1.CacheNodeSpec) { s.IO.Mode = v1alpha1.IOWorkers }, Nothing, "", v1alpha1.IOWorkers,
			"set by spec.io.mode",
		},
		"workers with a tier": {
			"300Mi", func(s *v1alpha1.CacheNodeSpec) { s.IO.Mode = v1alpha1.IOWorkers; on(s) }, Nothing,
			"75Mi", v1alpha1.IOWorkers, "memoryTier is on",
		},
		"no more than half of the request": {"1Gi", func(s *v1alpha1.CacheNodeSpec) {
			s.Pod.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
		}, WithTier, "128Mi", v1alpha1.IODirect, "memoryTier is on: 128Mi"},
		"threads, whatever the memory": {
			"8Gi", func(s *v1alpha1.CacheNodeSpec) { s.IO.Mode = v1alpha1.IOThreads }, Nothing, "2Gi", v1alpha1.IOThreads,
			"set by spec.io.mode",
		},
		"an eighth of a small tier for each object": {
			"256Mi", nil, Nothing, "64Mi", v1alpha1.IOThreads,
			"objects of up to 1Mi",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := tiered(tt.limit, tt.change)
			spec, choices := Resolve(spec, Before{Serving: tt.before})
			says := strings.Join(choices, "\n")
			size := ""
			if HasMemoryTier(spec) {
				size = spec.MemoryTier.Size.String()
			}
			if size != tt.size || spec.IO.Mode != tt.mode || !strings.Contains(says, tt.says) {
				t.Errorf("the tier has %q, the mode is %s, and it says\n%s\nwant %q, %s and %q",
					size, spec.IO.Mode, says, tt.size, tt.mode, tt.says)
			}
			spec, choices = Resolve(spec, Before{Serving: (tt.before + 1) % 4})
			again := strings.Join(choices, "\n")
			if spec.MemoryTier.Size != nil && HasMemoryTier(spec) != (tt.size != "") {
				t.Errorf("resolved once more it is something else: %s", again)
			}
		})
	}
}
