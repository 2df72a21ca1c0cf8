package main

import (
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// purgeChart draws, for each system, the time from the purge of a URL until a request gets a new response.
func (r *results) purgeChart(file string) error {
	urls, err := readDocument[result.PurgeURLs](filepath.Join(r.folder, "purge-urls.json"))
	if err != nil {
		return err
	}
	var bars []result.Bar
	for _, system := range purgeSystems {
		samples := where(urls.Result.Samples, func(s result.PurgeURLSample) bool { return s.System == system[0] })
		name := strings.ReplaceAll(strings.ReplaceAll(system[1], "*", ""), ", ", ",\n")
		bars = append(bars, result.Bar{
			Name: name, Values: result.Values(samples, func(s result.PurgeURLSample) float64 { return s.Fresh.P50 }),
		})
	}
	return result.Bars(file, "Purge of one URL: time until a request gets a new response, p50 of each round", "ms", bars)
}
