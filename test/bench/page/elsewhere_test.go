package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// measured writes a result of the case fast-64k-random into a folder. CacheNode has the given rates, one for each
// round, and nginx has the rate 100 in each round.
func measured(t *testing.T, folder, date string, rates ...float64) {
	t.Helper()
	samples := map[string][]result.Sample{}
	for _, rate := range rates {
		sample := func(v float64) result.Sample { return result.Sample{Loads: []lab.Answers{{PerSecond: v, Requests: 1}}} }
		samples[ownName] = append(samples[ownName], sample(rate))
		samples[plainNginx] = append(samples[plainNginx], sample(100))
	}
	text, err := json.Marshal(document{
		Date: date, Commit: "0123456789ab", Processor: "a fast one",
		Result: result.Caches{Rounds: len(rates), Servers: map[string]string{ownName: ""}, Samples: samples},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "fast-64k-random.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestElsewhere checks that a row shows the ratios of the later runs, and that a case that no later run has measured is
// left out.
func TestElsewhere(t *testing.T) {
	folder := t.TempDir()
	measured(t, folder, "2026-11-23T01:02:03Z", 130, 140, 150)
	measured(t, filepath.Join(folder, "elsewhere", "b"), "2026-11-28T01:02:03Z", 80, 90, 110)
	r, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range append(rows, gainRows...) { // the table needs all these results
		if _, ok := r.byName[row.result]; !ok {
			r.byName[row.result] = document{Date: "2026-11-23", Commit: "0123456789ab"}
		}
	}
	got, err := r.elsewhereTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 2026-11-28, 3 rounds, a fast one |",
		"| fast disks, 64 KiB, random | nginx without pools | 1.40 (1.30-1.50) | = 0.90 (0.80-1.10) |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, ", 4 KiB") || strings.Contains(got, "Traffic Server") {
		t.Errorf("a case or a server that no other machine has is there:\n%s", got)
	}
}
