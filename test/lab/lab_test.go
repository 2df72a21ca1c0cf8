package lab

import (
	"regexp"
	"runtime"
	"testing"

	"github.com/cachenode/cachenode-operator/test/await"
)

// waiting matches the stack of a goroutine that waits for a mutex in Close.
var waiting = regexp.MustCompile(`\[sync\.Mutex\.Lock.*\n(?:.+\n)*?.*\(\*Lab\)\.Close`)

// TestClose checks that a second call of Close, for example after a signal, does not return before the first call.
func TestClose(t *testing.T) {
	l := &Lab{}
	begun, release := make(chan struct{}), make(chan struct{})
	l.cleanup(func() error { close(begun); <-release; return nil })
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- l.Close() }()
	<-begun
	go func() { second <- l.Close() }()
	await.Until(t, func() string { // the second call waits, or it returns
		select {
		case err := <-second:
			t.Fatalf("the second call returned %v before the first had undone everything", err)
		default:
		}
		if stacks := make([]byte, 1<<20); !waiting.Match(stacks[:runtime.Stack(stacks, true)]) {
			return "the second call does not wait for the first"
		}
		return ""
	})
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
