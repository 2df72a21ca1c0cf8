package effective

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestDefaults(t *testing.T) {
	const gibibyte = 1 << 30
	disk := func(size string, media v1alpha1.Media) v1alpha1.Disk {
		return v1alpha1.Disk{Name: "disk1", Size: resource.MustParse(size), Media: media}
	}
	article := disk("1Ti", v1alpha1.HDD)
	article.Cache.MaxSize = new(resource.MustParse("1Ti"))
	many, pools := v1alpha1.IO{Mode: v1alpha1.IOWorkers}, v1alpha1.IO{}
	explicit := disk("1Ti", v1alpha1.NVMe)
	explicit.ThreadPool.Threads = new(int32(2))
	tests := map[string]struct{ got, want int64 }{
		"threads of a core, divided among its workers":        {int64(Threads(disk("1Ti", v1alpha1.NVMe), many, 3, 2)), 16},
		"no more than a pod may have, divided":                {int64(Threads(disk("1Ti", v1alpha1.NVMe), many, 8, 32)), 4},
		"at least one":                                        {int64(Threads(explicit, many, 3, 2)), 1},
		"no more workers than nginx can have":                 {int64(Workers(many, 100)), 256},
		"but a worker for each core":                          {int64(Workers(many, 300)), 300},
		"threads for a hard disk":                             {int64(Threads(disk("1Ti", v1alpha1.HDD), pools, 3, 2)), 64},
		"no more than a pod may have":                         {int64(Threads(disk("1Ti", v1alpha1.HDD), pools, 8, 32)), 16},
		"workers that are not known":                          {int64(Threads(disk("1Ti", v1alpha1.HDD), pools, 3, 0)), 21},
		"threads for an SSD":                                  {int64(Threads(disk("1Ti", v1alpha1.SSD), pools, 3, 2)), 32},
		"a keys zone of 256 MiB for 1 TiB, as in the article": {KeysZone(article), 256 << 20},
		"a small disk's keys zone":                            {KeysZone(disk("1Gi", v1alpha1.HDD)), 8 << 20},
		"a huge disk's keys zone":                             {KeysZone(disk("1Pi", v1alpha1.HDD)), 4 * gibibyte},
		"nine tenths for the cache":                           {MaxSize(disk("100Gi", v1alpha1.HDD)), 90 * gibibyte},
		"no overflow":                                         {MaxSize(disk("5Pi", v1alpha1.HDD)), 5 << 50 / 10 * 9},
		"a twentieth free":                                    {MinFree(disk("100Gi", v1alpha1.HDD)), 5 * gibibyte},
		"cores: the limit, rounded up":                        {int64(Cores(new(resource.MustParse("3500m")))), 4},
		"cores: a small limit":                                {int64(Cores(new(resource.MustParse("100m")))), 1},
		"cores: no limit":                                     {int64(Cores(nil)), 0},
		"a worker for each core":                              {int64(Workers(pools, 3)), 3},
		"four workers for each core":                          {int64(Workers(many, 3)), 12},
		"workers for a number of cores that is not known":     {int64(Workers(many, 0)), 0},
		"a weight goes before the size": {
			ShardDisks([]v1alpha1.Disk{{Size: resource.MustParse("1Ti"), Weight: new(int32(7))}})[0].Weight, 7,
		},
		"sizes are weights": {ShardDisks([]v1alpha1.Disk{disk("1Ti", v1alpha1.HDD)})[0].Weight, 1 << 20},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %d, want %d", tt.got, tt.want)
			}
		})
	}
}
