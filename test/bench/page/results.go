package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/record"
)

type document = record.Document[result.Caches]

// results contains the results of the benchmark of caches.
type results struct {
	folder string
	byName map[string]document
	// elsewhere contains the results of later runs, on this or on other machines.
	elsewhere []place
	// shown contains the names of the results that are in a table.
	shown map[string]bool
}

// read reads the results in a folder. It also reads the results of later runs, which are in the subfolders of the
// folder "elsewhere".
func read(folder string) (*results, error) {
	byName, err := readCaches(folder)
	if err != nil {
		return nil, err
	}
	r := &results{folder: folder, byName: byName, shown: map[string]bool{}}
	places, err := filepath.Glob(filepath.Join(folder, "elsewhere", "*"))
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		if byName, err = readCaches(p); err != nil {
			return nil, err
		}
		r.elsewhere = append(r.elsewhere, place(byName))
	}
	return r, nil
}

// readCaches reads the results of the benchmark of caches in a folder. It leaves out the results of other benchmarks,
// which contain no servers.
func readCaches(folder string) (map[string]document, error) {
	byName := map[string]document{}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var kind struct {
			Result json.RawMessage `json:"result"`
		}
		var caches struct {
			Servers map[string]string `json:"servers"`
		}
		if err := json.Unmarshal(text, &kind); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if json.Unmarshal(kind.Result, &caches) != nil || len(caches.Servers) == 0 {
			continue
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		byName[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return byName, nil
}

// result returns the result with a name, and marks this result as shown.
func (r *results) result(name string) (document, error) {
	d, ok := r.byName[name]
	if !ok {
		return d, fmt.Errorf("there is no result %s.json", name)
	}
	if d.Date == "" || d.Commit == "" {
		return d, fmt.Errorf("%s.json has no date or no commit", name)
	}
	r.shown[name] = true
	return d, nil
}

// figures returns a figure of a server, for each round.
func figures(d document, server string, figure func(result.Sample) float64) []float64 {
	return result.Values(d.Result.Samples[server], figure)
}

// rate returns a function that returns the requests per second of a load in a sample.
func rate(load int) func(result.Sample) float64 {
	return func(s result.Sample) float64 { return s.Loads[load].PerSecond }
}

// against returns the ratio of CacheNode's requests per second to the requests per second of another server, computed
// round by round. ok is false if one of the two servers was not measured.
func against(d document, server string, load int) (ratio result.Ratio, ok bool) {
	ours, theirs := d.Result.Samples[ownName], d.Result.Samples[server]
	if len(ours) == 0 || len(theirs) == 0 {
		return result.Ratio{}, false
	}
	return result.Paired(figures(d, ownName, rate(load)), figures(d, server, rate(load))), true
}
