package agents

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestErrands checks that errands outlive the pass that starts them, and end with the manager. The manager must wait
// for the end of the errands.
func TestErrands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manager, stop := context.WithCancel(t.Context())
		e, ended := make(errands), make(chan error)
		go func() { ended <- e.Start(manager) }()
		pass, end := context.WithCancel(manager)
		finish := make(chan struct{})
		isOver, isFinished := false, false
		e.start(pass, func(ctx context.Context) {
			<-ctx.Done()
			isOver = true
			<-finish
			isFinished = true
		})
		end()
		synctest.Wait()
		if isOver {
			t.Error("the errand ends with its pass")
		}
		stop()
		synctest.Wait()
		if !isOver {
			t.Error("the errand does not end with the manager")
		}
		select {
		case err := <-ended:
			t.Fatalf("the manager does not wait for the errand: it ends with %v", err)
		default:
		}
		close(finish)
		if err := <-ended; err != nil || !isFinished {
			t.Errorf("it ends with %v; the errand has finished: %t", err, isFinished)
		}
		e.start(pass, func(context.Context) { t.Error("an errand starts after the end") })
	})
}
