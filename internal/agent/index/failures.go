package index

import (
	"runtime"
	"sync"
)

// failures is where the store says what it does. It notes when the store cannot go on; other errors come back from the
// store's functions.
type failures struct {
	failed chan struct{}
	once   sync.Once
}

// Infof implements pebble.Logger.
func (*failures) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (*failures) Errorf(string, ...any) {}

// Fatalf is called when the store cannot write, for example to a disk that has failed. It must not return. To end the
// whole agent would take the other disks along, so only the goroutine ends.
func (f *failures) Fatalf(string, ...any) {
	f.once.Do(func() { close(f.failed) })
	runtime.Goexit()
}
