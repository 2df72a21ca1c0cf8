package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

// TestBenchmarkChecksItself is a short form of make bench-article. It builds, fills and measures three caches with all
// checks of the benchmark. It does not check times.
func TestBenchmarkChecksItself(t *testing.T) {
	t.Chdir("../../..")
	var out strings.Builder
	small := mixed("smoke", 4*mebi, 24, 300, 2)
	small.speed = lab.Speed{} // full speed
	folder := t.TempDir()
	b := bench{scenario: small, shares: []float64{0.5}}
	if err := measure(&out, b, []server{noPools, article, ours}, 1, folder); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"24 objects of 4096 KiB", "cachenode against nginx: random", "cachenode against article: random", "at a fixed rate",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report:\n%s", want, &out)
		}
	}
	text, err := os.ReadFile(folder + "/smoke.json")
	if err != nil {
		t.Fatal(err)
	}
	var d record.Document[result.Caches]
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	r := d.Result
	if d.Commit == "" || d.Kernel == "" || r.Connections["hot"] != 50 {
		t.Errorf("the conditions are %+v", d)
	}
	for name, samples := range r.Samples {
		for _, load := range slices.Concat(samples[0].Loads, samples[0].AtRate[0].Loads) {
			if load.Requests == 0 {
				t.Errorf("%s has answered no request", name)
			}
		}
	}
	if len(r.Samples) != 3 {
		t.Errorf("%d servers were measured, want 3", len(r.Samples))
	}
	t.Log(out.String())
}
