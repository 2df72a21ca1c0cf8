package agents

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errands starts goroutines that may outlive the pass that starts them. They end with the manager's context, and the
// manager waits for them, because errands is a manager.Runnable.
type errands chan func(context.Context)

// Start implements manager.Runnable. It runs errands until the context ends, and then waits for the errands that
// still run.
func (e errands) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case errand := <-e:
			running.Go(func() { errand(ctx) })
		}
	}
}

// start starts an errand with the logger of a pass. It starts nothing once the context of the pass has ended.
func (e errands) start(ctx context.Context, errand func(context.Context)) {
	logger := log.FromContext(ctx)
	select {
	case e <- func(ctx context.Context) { errand(log.IntoContext(ctx, logger)) }:
	case <-ctx.Done():
	}
}
