package index

import "runtime"

// logger receives the log messages of the database, and drops them. Errors come back from the functions of the
// database or go to its event listener.
type logger struct{ index *Index }

// Infof implements pebble.Logger.
func (logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (logger) Errorf(string, ...any) {}

// Fatalf marks the index as failed when the database cannot continue, for example on a disk that has failed. It must
// not return. The end of the whole agent would affect the other disks too, so only the goroutine ends.
func (l logger) Fatalf(string, ...any) {
	l.index.fail()
	runtime.Goexit()
}
