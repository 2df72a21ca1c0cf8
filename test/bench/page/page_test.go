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

// made creates a folder, and writes a result and a page into it. The result contains the given rates of each server,
// one rate for each round.
func made(t *testing.T, rates map[string][]float64, page string) string {
	t.Helper()
	folder := t.TempDir()
	c := result.Caches{
		Case: "case", Memory: 300, Disks: "disks in memory", Begins: "an empty page cache", Rounds: 3, Seconds: 4,
		Objects: 16000, Bytes: 64 << 10,
		Connections: map[string]int{"random": 50}, Loads: []string{"random"},
		Servers: map[string]string{}, Samples: map[string][]result.Sample{},
	}
	for server, all := range rates {
		c.Servers[server] = "a server"
		for _, v := range all {
			c.Samples[server] = append(c.Samples[server], result.Sample{
				Loads:       []lab.Answers{{PerSecond: v, P50: 3, P99: 12.5, Requests: int64(v)}},
				ReadsPerHit: 0.9, CPU: 0.1, Memory: 299,
			})
		}
	}
	text, err := json.Marshal(document{Date: "2026-11-23T01:02:03Z", Commit: "0123456789ab", Result: c})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"case.json": string(text), "page.md": page, "other.json": `{"result": []}`}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestFill(t *testing.T) {
	folder := made(t, map[string][]float64{
		"trafficserver": {10000, 12000, 11000}, "cachenode": {9000, 9600, 9900},
		"nginx": {0, 0, 4000}, "a-variant": {9000, 9700, 9800},
	}, "")
	r, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.fill("before\n<!-- table case -->\nan old figure: 77\n<!-- end -->\nafter")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n<!-- table case -->\n", "<!-- end -->\nafter",
		"The caches contain 16,000 objects of 64 KiB, on disks in memory.\nEach server has 300 MiB of memory.\n" +
			"Clients open 50 connections for random load.\n" +
			"Each of the 3 rounds measures each server for 4 s, beginning with an empty page cache.\n" +
			"The figures were measured on 2026-11-23 at commit 0123456789ab ([JSON](case.json)).",
		"| **CacheNode** | 9,600 (9,000-9,900) | – | 3.0 | 12 | 0.90 | 0.100 | 299 |",
		"| Traffic Server | 11,000 (10,000-12,000) | **0.90 (0.80-0.90)** |",
		"| nginx without pools | 0 (0-4,000) | no answer | no answer | no answer |",
		"| `a-variant` | 9,700 (9,000-9,800) | = 1.00 (0.99-1.01) |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the page:\n%s", want, got)
		}
	}
	if strings.Contains(got, "77") {
		t.Errorf("the old table is still there:\n%s", got)
	}
	if again, err := r.fill(got); err != nil || again != got {
		t.Errorf("filled once more it is another page (%v):\n%s", err, again)
	}
}

func TestPagesWithMistakes(t *testing.T) {
	rates := map[string][]float64{"cachenode": {1, 2, 3}}
	for name, tt := range map[string]struct{ page, want string }{
		"a name that is no result":   {"<!-- table none -->\n<!-- end -->", "there is no result none.json"},
		"a table without an end":     {"<!-- table case -->\n", "do not make pairs"},
		"an end without a table":     {"<!-- end -->\n", "do not make pairs"},
		"a result that is not shown": {"", "no table shows case"},
		"a table in a table": {
			"<!-- table case -->\n<!-- table case -->\n<!-- end -->\n<!-- end -->", "table case has no end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(made(t, rates, tt.page)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBest(t *testing.T) {
	rates := map[string][]float64{"cachenode": {10, 10, 10}, "nginx": {5, 5, 5}, "trafficserver": {8, 20, 21}}
	folder := made(t, rates, "")
	r, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.result("case")
	if err != nil {
		t.Fatal(err)
	}
	if got := best(d, 0); got.Median != 0.5 || !got.Tie() {
		t.Errorf("the ratio to Traffic Server, the best by the medians, is %s, want a tie at 0.50", got)
	}
}

// TestGoal checks both kinds of ratios: a ratio grows if CacheNode serves more requests, and if its latency is shorter.
func TestGoal(t *testing.T) {
	at := func(rate, p99 float64) []result.Sample {
		load := lab.Answers{PerSecond: rate, P99: p99}
		sample := result.Sample{
			Loads: []lab.Answers{load}, AtRate: []result.AtRate{{Share: 0.8, Loads: []lab.Answers{load}}},
		}
		return []result.Sample{sample, sample, sample}
	}
	d := document{Result: result.Caches{Samples: map[string][]result.Sample{
		ownName: at(900, 5), trafficServer: at(1000, 10),
	}}}
	for name, tt := range map[string]struct {
		goal goal
		want float64
	}{
		"rate":    {goal{server: trafficServer}, 0.9},
		"latency": {goal{server: trafficServer, atRate: new(0)}, 2},
	} {
		if got, err := tt.goal.ratio(d); err != nil || got.Median != tt.want {
			t.Errorf("%s: the ratio is %s (%v), want %.1f", name, got, err, tt.want)
		}
	}
	if _, err := (goal{server: varnish}).ratio(d); err == nil {
		t.Error("a server that was not measured has a ratio")
	}
}
