package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/bench/result"
)

const (
	// updateEvery is the minimum time between the starts of two updates. grace is the time from the moment at which a
	// purge is due to its end. It equals the default of spec.purge.grace.
	updateEvery = 25 * time.Millisecond
	grace       = 10 * time.Second
)

// atRate measures many purges a second in one pod.
func atRate(o options) (r result.PurgeRate, err error) {
	duration := cmp.Or(o.seconds, 30*time.Second)
	r = result.PurgeRate{
		PerSecond: o.rate, Seconds: duration.Seconds(), Grace: grace.Seconds(),
		Every: float64(updateEvery.Milliseconds()), Rounds: o.rounds,
	}
	count := int(duration.Seconds() * float64(o.rate))
	mebibytes := max(leastDisk, int64(count*2/disks*6>>10)+200) // 6 KiB (1.5 blocks) an object, and the folders
	return r, withLab(o, int64(o.rounds*disks)*mebibytes, func(b *bench) error {
		for round := range o.rounds {
			p, err := b.startPod(fmt.Sprintf("pod%d", round), mebibytes) // a new pod, so that its journal is empty
			if err != nil {
				return err
			}
			s, err := b.atRate(p, count, duration)
			if err != nil {
				return err
			}
			s.Round = round + 1
			fmt.Fprintf(os.Stderr, "%+v\n", s)
			r.Samples = append(r.Samples, s)
			if err := p.server.Stop(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) atRate(p pod, count int, duration time.Duration) (s result.PurgeRateSample, err error) {
	j := job{
		Case: "fill", Servers: []endpoint{p.endpoint()}, Way: "api", Count: 2 * count, Rate: b.rate, Duration: duration,
	}
	if err := b.ask(j, &struct{}{}); err != nil {
		return s, err
	}
	before, err := p.watch()
	if err != nil {
		return s, err
	}
	j.Case = "rate"
	if err := b.ask(j, &s); err != nil {
		return s, err
	}
	after, err := p.used()
	s.CPU, s.MemoryPeak = after.cpu-before.cpu, after.peak
	return s, err
}

// rate purges cached URLs at a fixed rate. As soon as the agent has applied an update, rate sends the next update.
// This update contains all purges that are due, and the ends of the purges whose grace period is over.
func (j job) rate(ctx context.Context) (any, error) {
	o, err := j.operator()
	if err != nil {
		return nil, err
	}
	lag, s := newRecorder(), result.PurgeRateSample{}
	total := int(j.Duration.Seconds() * float64(j.Rate))
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second / time.Duration(j.Rate)) }
	var rules []purge.Rule
	ended := 0
	for len(rules) < total {
		first, now := len(rules), time.Now()
		for i := first; i < total && due(i).Before(now); i++ {
			rules = append(rules, o.add(purge.Target{URLs: []string{"http://" + host + object(tags[0], sizes[0], i)}}))
		}
		for ; ended < first && due(ended).Add(grace).Before(now); ended++ {
			o.seal(rules[ended])
		}
		if len(rules) > first {
			if err := o.send(ctx); err != nil {
				return nil, err
			}
			s.Updates++
		}
		applied := time.Now()
		for i := first; i < len(rules); i++ {
			s.LastLag = float64(applied.Sub(due(i)).Microseconds()) / 1000
			lag.add(applied.Sub(due(i)))
		}
		time.Sleep(time.Until(now.Add(updateEvery)))
	}
	text, err := o.journal.Encode()
	s.Lag, s.JournalBytes, s.JournalEncoded = lag.latencies(), o.journal.Size(), len(text)
	s.Rules, s.Open = len(rules), len(rules)-ended
	return s, err
}
