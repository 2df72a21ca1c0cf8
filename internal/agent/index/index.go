package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Index is the index of one disk. It is safe for concurrent use, but only one goroutine may change it.
type Index struct {
	// Serves says which generations nginx finds, for [Index.Objects] and the like; nil for all. Set it before other
	// calls.
	Serves func(generation int64) bool
	// Clock tells the time to the index and to its keeper. Open sets the real one; set another before other calls.
	Clock clock.Clock

	db *pebble.DB
	// boot names the boot of the machine.
	boot string
	// mutex is held for reading while the store is used, so that nobody uses it after Close.
	mutex  sync.RWMutex
	closed bool
	failed chan struct{}
	once   sync.Once
	// damaged is true once something was read that was not written so.
	damaged atomic.Bool
}

// ErrFailed is the error after the disk has failed under the index, or after [Index.Close].
var ErrFailed = errors.New("the index cannot be used any more")

// Cache is memory that the indexes of all disks of a pod share.
type Cache struct{ blocks *pebble.Cache }

// NewCache returns a cache of a size in bytes. The caller closes it after the indexes.
func NewCache(bytes int64) *Cache { return &Cache{pebble.NewCache(bytes)} }

// Close gives the memory back.
func (c *Cache) Close() { c.blocks.Unref() }

// memTable is the size of the changes that an index collects in memory before it writes them to the disk, in bytes. It
// has up to two of them.
const memTable = 1 << 20

// blockSize is how much of the records is compressed together, in bytes. Keys repeat hosts and folders, which larger
// blocks make more of; each look for one file reads a block.
const blockSize = 16 << 10

// Open opens the index in a folder, and creates it if there is none. An index that cannot be opened is damaged: the
// caller removes the folder and opens it again, and has everything rescanned. boot names the boot of the machine
// (/proc/sys/kernel/random/boot_id).
//
// There is no log of changes, which would have to be synced, and whose failure would end the agent. After a crash, the
// index is as of some earlier moment, and [Index.Checkpoint] says of which one.
func Open(folder, boot string, cache *Cache) (*Index, error) {
	return openIn(vfs.Default, folder, boot, cache)
}

// OpenInMemory opens an index that is lost when it is closed, for a cache that is in memory too.
func OpenInMemory(cache *Cache) (*Index, error) { return openIn(vfs.NewMem(), "index", "", cache) }

func openIn(files vfs.FS, folder, boot string, cache *Cache) (*Index, error) {
	x := &Index{Clock: clock.RealClock{}, boot: boot, failed: make(chan struct{})}
	options := &pebble.Options{
		FS:    files,
		Cache: cache.blocks, Logger: logger{x}, DisableWAL: true, MaxOpenFiles: 64,
		MemTableSize: memTable, MemTableStopWritesThreshold: 2, FormatMajorVersion: pebble.FormatNewest,
		EventListener: &pebble.EventListener{
			BackgroundError: x.backgroundError,
			DataCorruption:  func(pebble.DataCorruptionInfo) { x.damage() },
		},
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
	for i := range options.Levels {
		options.Levels[i].BlockSize = blockSize
	}
	db, err := pebble.Open(folder, options)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	x.db = db
	return x, nil
}

// Failed returns a channel that is closed when the index cannot be used any more, because the disk has failed under it
// or it is damaged. A call that changes the index may then never return.
func (x *Index) Failed() <-chan struct{} { return x.failed }

// Damaged returns true for an index that has failed because it is damaged. The caller removes its folder, as for one
// that cannot be opened.
func (x *Index) Damaged() bool { return x.damaged.Load() }

func (x *Index) damage() {
	x.damaged.Store(true)
	x.fail()
}

// retryAfter is the time between two tries to write to a disk that has failed.
const retryAfter = 5 * time.Second

// backgroundError notes that the disk has failed. The store tries again as soon as this returns, which would keep a
// processor busy.
func (x *Index) backgroundError(error) {
	x.fail()
	x.Clock.Sleep(retryAfter)
}

func (x *Index) fail() { x.once.Do(func() { close(x.failed) }) }

// use calls a function that uses the store, unless the index cannot be used.
func (x *Index) use(f func() error) error {
	x.mutex.RLock()
	defer x.mutex.RUnlock()
	select {
	case <-x.failed:
		return ErrFailed
	default:
	}
	if x.closed {
		return ErrFailed
	}
	if err := f(); err != nil {
		if errors.Is(err, errDamaged) || pebble.IsCorruptionError(err) {
			x.damage()
		}
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

// Flush writes what is in memory to the disk.
func (x *Index) Flush() error { return x.use(x.db.Flush) }

// Close writes what is in memory to the disk. It does not wait for a store whose disk has failed: its folder cannot be
// opened again by this process then.
func (x *Index) Close() error {
	err := x.Flush()
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	if errors.Is(err, ErrFailed) {
		go func() { _ = x.db.Close() }()
		return err
	}
	return errors.Join(err, x.db.Close())
}

// Change is a file that was stored, if it has an entry, or removed.
type Change struct {
	File  cachekey.File
	Entry *Entry
}

// Apply makes changes, in their order, all or none of them.
func (x *Index) Apply(changes []Change) error {
	return x.use(func() error {
		batch := x.db.NewIndexedBatch()
		defer func() { _ = batch.Close() }()
		for _, c := range changes {
			if err := remove(batch, c.File); err != nil {
				return err
			}
			if c.Entry == nil {
				continue
			}
			if err := add(batch, *c.Entry); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.NoSync)
	})
}

func add(batch *pebble.Batch, e Entry) error {
	err := errors.Join(
		batch.Set(fileRecord(e.File), e.encode(), nil), batch.Set(textRecord(byKey, e.Key, e.File), nil, nil))
	for _, tag := range e.Tags {
		err = errors.Join(err, batch.Set(textRecord(byTag, tag, e.File), nil, nil))
	}
	return err
}

func remove(batch *pebble.Batch, f cachekey.File) error {
	e, ok, err := get(batch, f)
	if err != nil || !ok {
		return err
	}
	err = errors.Join(batch.Delete(fileRecord(f), nil), batch.Delete(textRecord(byKey, e.Key, f), nil))
	for _, tag := range e.Tags {
		err = errors.Join(err, batch.Delete(textRecord(byTag, tag, f), nil))
	}
	return err
}

func get(from pebble.Reader, f cachekey.File) (e Entry, ok bool, err error) {
	value, closer, err := from.Get(fileRecord(f))
	if errors.Is(err, pebble.ErrNotFound) {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	defer func() { _ = closer.Close() }()
	e, err = decode(f, value)
	return e, err == nil, err
}

// Get returns the entry of a file; ok is false if the index does not have it.
func (x *Index) Get(f cachekey.File) (e Entry, ok bool, err error) {
	err = x.use(func() (err error) {
		e, ok, err = get(x.db, f)
		return err
	})
	return e, ok, err
}

// WithKey returns the files with an object's key: all of its slices and variants.
func (x *Index) WithKey(key string) iter.Seq2[cachekey.File, error] {
	return x.files(append(append([]byte{byKey}, key...), 0))
}

// WithPrefix returns the files whose object's key begins with a text, by key. A file is there once.
func (x *Index) WithPrefix(prefix string) iter.Seq2[cachekey.File, error] {
	return x.files(append([]byte{byKey}, prefix...))
}

// WithTag returns the files whose object has a tag.
func (x *Index) WithTag(tag string) iter.Seq2[cachekey.File, error] {
	return x.files(append(append([]byte{byTag}, tag...), 0))
}

// InFolder returns the files of a folder.
func (x *Index) InFolder(f cachekey.Folder) iter.Seq2[cachekey.File, error] {
	return x.files(folderRecords(f))
}

// page is how many files are looked up at a time.
const page = 1024

// files returns the files at the end of the records that begin with a text. The index may change meanwhile: a file that
// is stored or removed then may or may not be there.
func (x *Index) files(start []byte) iter.Seq2[cachekey.File, error] {
	return func(yield func(cachekey.File, error) bool) {
		end := after(start)
		for from := start; from != nil; {
			var files []cachekey.File
			err := x.use(func() (err error) {
				files, from, err = x.page(from, end)
				return err
			})
			for _, f := range files {
				if !yield(f, nil) {
					return
				}
			}
			if err != nil {
				yield(cachekey.File{}, err)
				return
			}
		}
	}
}

// page returns the files of the next records, and where those after them begin; nil if there are no more.
func (x *Index) page(from, end []byte) (files []cachekey.File, next []byte, err error) {
	records, err := x.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: end})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = records.Close() }()
	for ok := records.First(); ok; ok = records.Next() {
		if len(files) == page {
			return files, append([]byte{}, records.Key()...), nil
		}
		f, err := fileIn(records.Key())
		if err != nil {
			return files, nil, err
		}
		files = append(files, f)
	}
	return files, nil, records.Error()
}

// after returns the least text above all texts that begin with one. The kinds are below 255, so there is always one.
func after(start []byte) []byte {
	end := append([]byte{}, start...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// SetCheckpoint says that everything that nginx did before a moment is in the index.
func (x *Index) SetCheckpoint(at time.Time) error { return x.setTime(timeOf("checkpoint"), at) }

// Checkpoint returns the last moment of [Index.SetCheckpoint]. Changes reach the disk in their order, so that is true
// after a crash of the agent. It is zero if there was none. rebooted is true if the machine was booted since: the file
// system can have lost what nginx did in the last minute before a crash.
func (x *Index) Checkpoint() (at time.Time, rebooted bool, err error) {
	return x.time(timeOf("checkpoint"))
}

// SetScanned says that everything that nginx did in a folder before a moment is in the index.
func (x *Index) SetScanned(folder cachekey.Folder, at time.Time) error {
	return x.setTime(timeOf(folder.Path()), at)
}

func timeOf(name string) []byte { return append([]byte{meta}, name...) }

func (x *Index) setTime(record []byte, at time.Time) error {
	value := append(binary.AppendVarint(nil, at.UnixNano()), x.boot...)
	return x.use(func() error { return x.db.Set(record, value, pebble.NoSync) })
}

func (x *Index) time(record []byte) (at time.Time, rebooted bool, err error) {
	err = x.use(func() error {
		value, closer, err := x.db.Get(record)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		defer func() { _ = closer.Close() }()
		at, rebooted, err = x.decodeTime(value)
		return err
	})
	return at, rebooted, err
}

func (x *Index) decodeTime(value []byte) (at time.Time, rebooted bool, err error) {
	nanoseconds, n := binary.Varint(value)
	if n <= 0 {
		return at, false, errDamaged
	}
	at, rebooted = time.Unix(0, nanoseconds), string(value[n:]) != x.boot
	if at.After(x.Clock.Now()) { // the clock was set back, and says nothing about what is older
		at = time.Time{}
	}
	return at, rebooted, nil
}

// scan is when a folder was scanned, as [Index.Checkpoint].
type scan struct {
	at       time.Time
	rebooted bool
}

// scans returns the last moments of [Index.SetScanned], by the folder's path.
func (x *Index) scans() (map[string]scan, error) {
	list := map[string]scan{}
	err := x.use(func() error {
		records, err := x.db.NewIter(&pebble.IterOptions{LowerBound: []byte{meta}, UpperBound: after([]byte{meta})})
		if err != nil {
			return err
		}
		defer func() { _ = records.Close() }()
		for ok := records.First(); ok; ok = records.Next() {
			value, err := records.ValueAndErr()
			if err != nil {
				return err
			}
			var s scan
			if s.at, s.rebooted, err = x.decodeTime(value); err != nil {
				return err
			}
			list[string(records.Key()[1:])] = s // the checkpoint is no path, and nobody asks for it
		}
		return records.Error()
	})
	return list, err
}
