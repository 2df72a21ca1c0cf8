package index

import "runtime"

// logger is where the store says what it does. Errors come back from its functions or go to its event listener.
type logger struct{ index *Index }

// Infof implements pebble.Logger.
func (logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (logger) Errorf(string, ...any) {}

// Fatalf ends the use of a store that cannot go on, for example on a disk that has failed. It must not return. To end
// the whole agent would take the other disks along, so only the goroutine ends.
func (l logger) Fatalf(string, ...any) {
	l.index.fail()
	runtime.Goexit()
}
