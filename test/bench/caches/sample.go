package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// enough is the minimum number of answers per connection in a measurement. With fewer answers, the requests that are
// in progress at the end distort the figures.
const enough = 3

// progress returns a line with the main figures of a sample.
func progress(s result.Sample) string {
	var b strings.Builder
	for _, a := range s.Loads {
		fmt.Fprintf(&b, "%9.1f/s p99 %8.1f ms ", a.PerSecond, a.P99)
	}
	fmt.Fprintf(&b, " %5.2f reads, %d MiB, %d to the origin", s.ReadsPerHit, s.Memory, s.Origin)
	return b.String()
}

// warmUpTime is the time for which the load runs before a measurement, on disks with the speed of the measurement. It
// is long enough for a server to detect a hot object.
const warmUpTime = 3 * time.Second

// memory is the state of the memory at the beginning of each round.
type memory string

// The states of the memory.
const (
	emptyPages memory = "an empty page cache"
	cold       memory = "an empty page cache, and no inodes in memory"
	longUse    memory = "memory as after long use"
)

// warmUp brings the memory into the state b.begins, and then runs the load for warmUpTime. For the state longUse, the
// load first runs on disks at full speed, because slow disks would take minutes to fill the memory.
func (b *bench) warmUp(r *running) (err error) {
	switch b.begins {
	case longUse:
		if !b.full { // full disks have no room for misses at full speed, and filling them has already filled the memory
			_, err = b.ask(r, 2*warmUpTime)
		}
	case cold:
		err = lab.DropAllCaches()
	default:
		err = lab.DropCaches()
	}
	if err != nil {
		return err
	}
	if err := r.process.Throttle(b.speed); err != nil {
		return err
	}
	_, err = b.ask(r, warmUpTime)
	return err
}

// ask sends the loads of the case to a server, and checks the answers.
func (b *bench) ask(r *running, duration time.Duration) ([]lab.Answers, error) {
	answers, err := b.Ask(r.site.URL(), duration, b.loads...)
	if err != nil {
		return nil, err
	}
	return answers, b.check(answers)
}

// askAtRates sends the loads to a server at fixed rates, and checks the answers. Each of the rates is a share of the
// rate that the server has just served without a fixed rate.
func (b *bench) askAtRates(r *running, served []lab.Answers) (all []result.AtRate, err error) {
	for _, share := range b.shares {
		rates := result.Values(served, func(a lab.Answers) float64 { return max(a.PerSecond*share, 1) })
		address := fmt.Sprintf("%s:%d", r.site.Address, lab.Port)
		answers, err := b.AskAtRate(b.rate, address, b.duration, b.loads, rates)
		if err == nil {
			err = b.check(answers)
		}
		if err != nil {
			return nil, fmt.Errorf("at %.0f%%: %w", share*100, err)
		}
		all = append(all, result.AtRate{Share: share, Loads: answers})
	}
	return all, nil
}

// check returns an error if a request failed, or if the answers have fewer bytes than the requested objects.
func (b *bench) check(answers []lab.Answers) error {
	for i, a := range answers {
		if a.Errors > 0 {
			return fmt.Errorf("%s: %d of %d requests failed", b.loads[i].Name, a.Errors, a.Requests)
		}
		if a.Bytes < a.Requests*b.size {
			return fmt.Errorf("%s: %d answers of %d bytes have %d bytes together",
				b.loads[i].Name, a.Requests, b.size, a.Bytes)
		}
	}
	return nil
}

// sample measures a server once.
func (b *bench) sample(r *running) (s result.Sample, err error) {
	if err := b.warmUp(r); err != nil {
		return s, err
	}
	if s, err = b.closedLoop(r); err != nil {
		return s, err
	}
	if s.AtRate, err = b.askAtRates(r, s.Loads); err != nil {
		return s, err
	}
	killed, err := r.process.Killed()
	if err != nil {
		return s, err
	}
	if killed > 0 {
		return s, fmt.Errorf("the kernel has killed %d processes for want of memory", killed)
	}
	if err := r.process.Throttle(lab.Speed{}); err != nil {
		return s, err
	}
	return s, b.fetch(r.site, 0, min(b.count, 50)) // checks every byte, of the hot object too
}

// closedLoop measures a server with clients that send the next request of a connection as soon as the previous response
// is complete.
func (b *bench) closedLoop(r *running) (s result.Sample, err error) {
	before, err := r.process.Use()
	if err != nil {
		return s, err
	}
	asked, err := r.site.OriginCount()
	if err != nil {
		return s, err
	}
	if s.Loads, err = b.ask(r, b.duration); err != nil {
		return s, err
	}
	after, err := r.process.Use()
	if err != nil {
		return s, err
	}
	var requests int64
	for i, a := range s.Loads {
		requests += a.Requests
		s.Short = s.Short || a.Requests < enough*int64(b.loads[i].Connections)
	}
	s.ReadsPerHit = float64(after.Reads-before.Reads) / float64(max(s.Loads[0].Requests, 1))
	s.Written = float64(after.Written-before.Written) / float64(max(requests, 1))
	s.CPU = float64((after.CPU - before.CPU).Microseconds()) / 1000 / float64(max(requests, 1))
	memory, err := r.process.Memory()
	if err != nil {
		return s, err
	}
	s.Memory = memory >> 20
	if s.Origin, err = r.site.OriginCount(); err != nil {
		return s, err
	}
	s.Origin -= asked
	return s, b.checkOrigin(s, requests)
}

// checkOrigin returns an error if too many or too few requests went to the origin. In a case without misses, at most 1%
// of the random requests may go to the origin. In a case with misses, 8 to 16% of all requests must go to the origin.
// With full disks, there is no maximum.
func (b *bench) checkOrigin(s result.Sample, requests int64) error {
	if random := s.Loads[0].Requests; !b.misses && s.Origin > random/100 {
		return fmt.Errorf("%d of %d random requests went to the origin, and all objects should be in the cache",
			s.Origin, random)
	}
	if share := float64(s.Origin) / float64(max(requests, 1)); b.misses && (share < 0.08 || share > 0.16 && !b.full) {
		return fmt.Errorf("%.1f%% of the requests went to the origin, "+
			"and one in ten was for what the cache cannot have: is it full?", 100*share)
	}
	return nil
}
