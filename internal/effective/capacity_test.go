package effective

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func sized(size int64, change func(*v1alpha1.Disk)) v1alpha1.Disk {
	d := v1alpha1.Disk{Name: "disk1", Size: *resource.NewQuantity(size, resource.BinarySI)}
	if change != nil {
		change(&d)
	}
	return d
}

// TestNothingFillsUp checks the defaults for random sizes of a disk and its file system. The defaults leave free space,
// nginx accepts them, and they fit into any memory limit that validation accepts.
func TestNothingFillsUp(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := int64(64*mebibyte) << random.IntN(28)
		measured := size/2 + random.Int64N(size)
		d := Measured(sized(size, nil), measured)
		maxSize, minFree, eject := MaxSize(d), MinFree(d), EjectBelow(d)
		switch {
		case maxSize < mebibyte, maxSize%mebibyte != 0:
			t.Errorf("max_size is %d", maxSize)
		case maxSize+minFree > min(size, measured):
			t.Errorf("%s on %s: max_size %s and min_free %s do not fit",
				Bytes(size), Bytes(measured), Bytes(maxSize), Bytes(minFree))
		case eject >= minFree:
			t.Errorf("%s on %s: taken out of use below %s, and nginx keeps only %s free",
				Bytes(size), Bytes(measured), Bytes(eject), Bytes(minFree))
		case len(Contradictions(sized(size, nil), measured)) > 0:
			t.Errorf("%s on %s: the defaults contradict the file system", Bytes(size), Bytes(measured))
		}
		var disks []v1alpha1.Disk
		for i := range 1 + random.IntN(32) {
			disks = append(disks, sized(size, func(d *v1alpha1.Disk) { d.Name = string(rune('a' + i)) }))
		}
		limit := int64(128+random.IntN(1<<16)) * mebibyte
		if sum := Sum(KeysZones(disks, limit)); sum > limit/2 && sum > int64(len(disks))*mebibyte {
			t.Errorf("%d disks of %s: zones of %s within %s", len(disks), Bytes(size), Bytes(sum), Bytes(limit))
		}
	}
}

// TestMemory checks that the result includes the memory of connections, threads and workers.
func TestMemory(t *testing.T) {
	spec := func(change func(*v1alpha1.CacheNodeSpec)) v1alpha1.CacheNodeSpec {
		s := v1alpha1.CacheNodeSpec{Disks: []v1alpha1.Disk{sized(10<<30, func(d *v1alpha1.Disk) { d.Media = v1alpha1.HDD })}}
		s.Listen.MaxConnections = new(int32(16384))
		s.Pod.Resources.Limits = corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("1Gi"),
			corev1.ResourceCPU:    resource.MustParse("2"),
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.CacheNodeSpec)
		want   string
	}{
		"an index of 8Mi, 10Mi a worker, 8Mi for the rest": {nil, "36Mi"},
		"four times the connections": {func(s *v1alpha1.CacheNodeSpec) {
			s.Listen.MaxConnections = new(int32(65536))
		}, "78Mi"},
		"no threads": {func(s *v1alpha1.CacheNodeSpec) { s.IO.Mode = v1alpha1.IODirect }, "32Mi"},
		"four workers a core, which share its connections": {func(s *v1alpha1.CacheNodeSpec) {
			s.IO.Mode = v1alpha1.IOWorkers
		}, "48Mi"},
		"two workers a core": {func(s *v1alpha1.CacheNodeSpec) {
			s.IO.Mode, s.IO.WorkersPerCPU = v1alpha1.IOWorkers, new(int32(2))
		}, "40Mi"},
		"more threads": {func(s *v1alpha1.CacheNodeSpec) {
			s.Disks[0].ThreadPool.Threads = new(int32(128))
		}, "40Mi"},
		"a worker": {func(s *v1alpha1.CacheNodeSpec) {
			s.Pod.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
		}, "26Mi"},
	} {
		if got := Bytes(Memory(spec(tt.change))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestKeysZones(t *testing.T) {
	given := func(d *v1alpha1.Disk) { d.Name, d.Cache.KeysZone = "given", new(resource.MustParse("100Mi")) }
	disks := []v1alpha1.Disk{sized(1<<40, nil), sized(1<<40, given)}
	for limit, want := range map[int64]int64{0: 256, 1 << 30: 256, 512 * mebibyte: 156, 100 * mebibyte: 1} {
		zones := KeysZones(disks, limit)
		if zones["disk1"] != want*mebibyte || zones["given"] != 100*mebibyte {
			t.Errorf("with a limit of %s the zones are %v, want %d MiB", Bytes(limit), zones, want)
		}
	}
}

func TestSizesThatDoNotFitTogether(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.Disk)
		want   string
	}{
		"more cache than file system": {
			func(d *v1alpha1.Disk) { d.Cache.MaxSize = new(resource.MustParse("1000Mi")) },
			"spec.disks[disk1].cache.maxSize: 1000Mi is more than the file system has, which is 960Mi",
		},
		"as much as it has, with some of it free": {
			func(d *v1alpha1.Disk) { d.Cache.MaxSize = new(resource.MustParse("960Mi")) }, "",
		},
		"as much as it has, and nothing free": {
			func(d *v1alpha1.Disk) {
				d.Cache.MaxSize, d.Cache.MinFree = new(resource.MustParse("950Mi")), new(resource.MustParse("0"))
			},
			"950Mi and the 20132659 below which the disk is taken out of use are 1016279859 together, " +
				"and the file system has 960Mi",
		},
		"all of it free": {
			func(d *v1alpha1.Disk) { d.Cache.MinFree = new(resource.MustParse("960Mi")) },
			"spec.disks[disk1].cache.minFree: 960Mi is all of the file system, which has 960Mi",
		},
		"taken out of use before nginx evicts": {
			func(d *v1alpha1.Disk) { d.Health.MinFree = new(resource.MustParse("50Mi")) },
			"spec.disks[disk1].health.minFree: 50Mi is not less than cache.minFree, which is 48Mi on a file system of 960Mi",
		},
		"nothing given": {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := sized(1<<30, tt.change)
			got := strings.Join(Contradictions(d, 960*mebibyte), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if len(Contradictions(d, 0)) > 0 {
				t.Error("a file system that was not measured contradicts")
			}
		})
	}
}
