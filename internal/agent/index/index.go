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
	// Serves reports whether nginx finds the objects of a generation; nil means all generations. [Index.Objects] and
	// similar methods leave out the objects that nginx does not find. Set Serves before other calls.
	Serves func(generation int64) bool
	// Clock is the clock of the index and its keeper. Open sets the real clock. To use another clock, set it before
	// other calls.
	Clock clock.Clock

	db *pebble.DB
	// boot is the ID of the machine's current boot.
	boot string
	// mutex is held for reading while the database is used, so that nobody uses the database after Close.
	mutex  sync.RWMutex
	closed bool
	failed chan struct{}
	once   sync.Once
	// damaged is true once a read has found data that differs from the data that was written.
	damaged atomic.Bool
}

// ErrFailed is the error of all calls after the index was found damaged, after its disk has failed, or after
// [Index.Close].
var ErrFailed = errors.New("the index cannot be used any more")

// Cache is memory that the indexes of all disks of a pod share.
type Cache struct{ blocks *pebble.Cache }

// NewCache returns a cache with the given size in bytes. The caller must close the indexes before the cache.
func NewCache(bytes int64) *Cache { return &Cache{pebble.NewCache(bytes)} }

// Close frees the memory.
func (c *Cache) Close() { c.blocks.Unref() }

// memTable is the size of a memory table in bytes. In a memory table, an index collects changes before it writes them
// to the disk. An index has up to two memory tables.
const memTable = 1 << 20

// blockSize is the number of bytes of records that are compressed together. Keys repeat hosts and folders, so larger
// blocks compress better. But each lookup of a file reads a whole block.
const blockSize = 16 << 10

// Open opens the index in a folder, and creates the index if there is none. An index that cannot be opened is damaged:
// the caller removes the folder and calls Open again. All folders of the cache must then be rescanned. boot is the ID
// of the machine's current boot (/proc/sys/kernel/random/boot_id).
//
// The index has no write-ahead log: a log would have to be synced, and a failure of the log would end the agent.
// After a crash, the index has the state of an earlier moment, and [Index.Checkpoint] returns this moment.
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

// Failed returns a channel that is closed when the index cannot be used any more, because its disk has failed or
// because it is damaged. A call that changes the index may then never return.
func (x *Index) Failed() <-chan struct{} { return x.failed }

// Damaged returns true for an index that has failed because it is damaged. The caller removes the index's folder, as
// for an index that cannot be opened.
func (x *Index) Damaged() bool { return x.damaged.Load() }

func (x *Index) damage() {
	x.damaged.Store(true)
	x.fail()
}

// retryAfter is the time between two attempts to write to a disk that has failed.
const retryAfter = 5 * time.Second

// backgroundError records that the disk has failed. Then it waits, because the database tries again as soon as
// backgroundError returns. Without the wait, these attempts would keep a CPU core busy.
func (x *Index) backgroundError(error) {
	x.fail()
	x.Clock.Sleep(retryAfter)
}

func (x *Index) fail() { x.once.Do(func() { close(x.failed) }) }

// use calls a function that uses the database, unless the index has failed or is closed.
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

// Flush writes the changes in memory to the disk.
func (x *Index) Flush() error { return x.use(x.db.Flush) }

// Close writes the changes in memory to the disk, and closes the index. If the disk has failed, Close does not wait
// for the database to close. This process then cannot open the folder again.
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

// Change is a file that was stored or removed. Entry is nil for a file that was removed.
type Change struct {
	File  cachekey.File
	Entry *Entry
}

// Apply makes all changes in their order, or none of them.
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

// Get returns the entry of a file; ok is false if the index does not contain the file.
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

// WithPrefix returns the files of all objects whose key begins with a text, sorted by key. Each file is returned
// once.
func (x *Index) WithPrefix(prefix string) iter.Seq2[cachekey.File, error] {
	return x.files(append([]byte{byKey}, prefix...))
}

// WithTag returns the files that have a tag.
func (x *Index) WithTag(tag string) iter.Seq2[cachekey.File, error] {
	return x.files(append(append([]byte{byTag}, tag...), 0))
}

// InFolder returns the files of a folder that are in the index.
func (x *Index) InFolder(f cachekey.Folder) iter.Seq2[cachekey.File, error] {
	return x.files(folderRecords(f))
}

// page is the largest number of files that one call of the method page returns.
const page = 1024

// files finds the records whose keys begin with start, and returns the files to which these records lead. The index
// may change during the iteration: a file that is stored or removed meanwhile may or may not be returned.
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

// page returns the files to which the next records lead. The constant page is the maximum number of these files. next
// is the key of the record that follows; nil if there are no more records.
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

// after returns the smallest text that sorts after all texts that begin with start. Such a text always exists,
// because start begins with the kind of a record, which is below 255.
func after(start []byte) []byte {
	end := append([]byte{}, start...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// SetCheckpoint records that the index contains everything that nginx did before a moment.
func (x *Index) SetCheckpoint(at time.Time) error { return x.setTime(timeOf("checkpoint"), at) }

// Checkpoint returns the last moment that [Index.SetCheckpoint] has recorded; zero if there is none. Changes reach
// the disk in their order, so the checkpoint is also correct after a crash of the agent. rebooted is true if the
// machine was booted after the checkpoint. If the machine crashed, the file system can have lost what nginx did
// shortly before the crash, see lostByCrash.
func (x *Index) Checkpoint() (at time.Time, rebooted bool, err error) {
	return x.time(timeOf("checkpoint"))
}

// SetScanned records that the index contains everything that nginx did in a folder before a moment.
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
	if at.After(x.Clock.Now()) { // the clock was set back, so this time cannot be compared with older times
		at = time.Time{}
	}
	return at, rebooted, nil
}

// scan is the time at which a folder was scanned; rebooted has the same meaning as in [Index.Checkpoint].
type scan struct {
	at       time.Time
	rebooted bool
}

// scans returns the last moments that [Index.SetScanned] has recorded, by the path of the folder.
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
			list[string(records.Key()[1:])] = s // the checkpoint is in the list too, under a name that is no path
		}
		return records.Error()
	})
	return list, err
}
