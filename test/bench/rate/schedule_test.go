package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSchedule(t *testing.T) {
	tests := map[string]struct {
		// stall is the time for which the server stops at the request in the middle. Other requests take a millisecond.
		connections int
		stall       time.Duration
		// p50 and p99 are in milliseconds. A closed loop would see a p99 of one millisecond in all cases.
		p50, p99 float64
	}{
		"a steady server":                       {connections: 4, p50: 1, p99: 1},
		"a stop delays what is due meanwhile":   {connections: 1, stall: 2 * time.Second, p50: 1, p99: 1880},
		"others go on if there are connections": {connections: 4, stall: 2 * time.Second, p50: 1, p99: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := schedule{rate: 100, connections: test.connections, duration: 10 * time.Second}
				answers := s.run(func() func(int64) (int64, error) {
					return func(n int64) (int64, error) {
						if n == 500 && test.stall > 0 {
							time.Sleep(test.stall)
						}
						time.Sleep(time.Millisecond)
						return 10, nil
					}
				})
				if answers.Requests != 1000 || answers.Bytes != 10000 || answers.Errors != 0 {
					t.Errorf("%+v, want 1,000 requests of 10 bytes", answers)
				}
				if !about(answers.P50, test.p50) || !about(answers.P99, test.p99) {
					t.Errorf("p50 %.3f and p99 %.3f ms, want %.1f and %.1f", answers.P50, answers.P99, test.p50, test.p99)
				}
			})
		})
	}
}

// about reports whether two values are equal, except for the width of the histogram's bars.
func about(got, want float64) bool { return got > want*0.98 && got < want*1.02 }

func TestFailedRequestsAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule{rate: 10, connections: 1, duration: time.Second}
		answers := s.run(func() func(int64) (int64, error) {
			return func(n int64) (int64, error) {
				if n%2 == 0 {
					return 0, errors.New("refused")
				}
				return 1, nil
			}
		})
		if answers.Errors != 5 || answers.Bytes != 5 {
			t.Errorf("%+v, want 5 errors and 5 bytes", answers)
		}
	})
}
