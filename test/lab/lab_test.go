package lab

import (
	"testing"
	"time"
)

// TestClose checks that a second call, as after a signal, returns no earlier than the first.
func TestClose(t *testing.T) {
	l := &Lab{}
	begun, release := make(chan struct{}), make(chan struct{})
	l.cleanup(func() error { close(begun); <-release; return nil })
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- l.Close() }()
	<-begun
	go func() { second <- l.Close() }()
	select {
	case err := <-second:
		t.Errorf("the second call returned %v before the first had undone everything", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
