// Command purge measures how fast purges are in CacheNode, Varnish and Traffic Server. It also measures what the
// agent's index costs. It needs Linux and root.
//
//	purge [FLAGS] CASE...
//
//	urls      purges of one URL: the time until requests get a new response, in one pod and in three
//	tag       a purge of half of the objects by a tag: how long it takes, and the latency of other requests
//	prefix    the same as tag, but the purge selects the objects by the beginning of their URLs
//	rate      many purges a second: the time until the agent has applied them
//	cost      stores and HITs a second with and without the agent that keeps the index
//	rebuild   the time, the memory and the bytes on disk that a new index takes
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/test/record"
)

// options are the flags.
type options struct {
	rounds, times, objects, checked, rate, files int
	seconds, window                              time.Duration
	systems, out                                 string
	// self is the path of this program, which also runs in the clients' network namespace.
	self string
}

// cases maps the name of a case to the function that measures it and returns the result.
var cases = map[string]func(options) (any, error){
	"urls":    func(o options) (any, error) { return urls(o) },
	"tag":     func(o options) (any, error) { return bulk(o, "tag") },
	"prefix":  func(o options) (any, error) { return bulk(o, "prefix") },
	"rate":    func(o options) (any, error) { return atRate(o) },
	"cost":    func(o options) (any, error) { return cost(o) },
	"rebuild": func(o options) (any, error) { return rebuild(o) },
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "purge:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	flags := flag.NewFlagSet("purge", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured; they take turns")
	flags.IntVar(&o.times, "times", 500, "urls: purges in a round")
	flags.IntVar(&o.objects, "objects", 200_000, "tag, prefix: objects, of which half are purged")
	flags.IntVar(&o.checked, "checked", 20_000, "tag, prefix: how many of the purged objects are requested afterwards")
	flags.DurationVar(&o.window, "window", 5*time.Second, "tag, prefix: how long requests are measured before and after")
	flags.IntVar(&o.rate, "rate", 1000, "rate: purges a second")
	flags.DurationVar(&o.seconds, "seconds", 0, "how long a measurement takes: rate, 30s; cost, 2s")
	flags.IntVar(&o.files, "files", 1_000_000, "rebuild: files on two disks")
	flags.StringVar(&o.systems, "systems", "", "urls, tag, prefix: what to measure, separated by commas; all if empty")
	flags.StringVar(&o.out, "out", "", "a folder for the results as JSON")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: purge [FLAGS] "+
			strings.Join(slices.Sorted(maps.Keys(cases)), "|")+" ...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch { // the program runs itself with these arguments, as separate processes
	case flags.Arg(0) == "probe":
		return answerJob(os.Stdin, os.Stdout)
	case flags.Arg(0) == "index":
		return keepIndexes(flags.Args()[1:], os.Stdout)
	case flags.NArg() == 0:
		flags.Usage()
		return errors.New("name a case")
	}
	var err error
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	for _, name := range flags.Args() {
		measure, ok := cases[name]
		if !ok {
			return fmt.Errorf("there is no case %s: want some of %s", name, slices.Sorted(maps.Keys(cases)))
		}
		measured, err := measure(o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if o.out == "" {
			continue
		}
		if err := record.Write(o.out, "purge-"+name, measured); err != nil {
			return err
		}
	}
	return nil
}
