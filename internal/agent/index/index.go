package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Index is the index of one disk. It is safe for concurrent use, but only one goroutine may change it.
type Index struct {
	db  *pebble.DB
	log *failures
}

// Cache is memory that the indexes of all disks of a pod share.
type Cache struct{ blocks *pebble.Cache }

// NewCache has so many bytes. The caller closes it after the indexes.
func NewCache(bytes int64) *Cache { return &Cache{pebble.NewCache(bytes)} }

// Close gives the memory back.
func (c *Cache) Close() { c.blocks.Unref() }

// memTable is the size of the changes that an index collects in memory before it writes them to the disk, in bytes. It
// has up to two of them.
const memTable = 1 << 20

// Open opens the index in a folder, and creates it if there is none. An index that cannot be opened is damaged: the
// caller removes the folder and opens it again, and has everything rescanned.
//
// Nothing is synced to the disk at a change: after a crash of the machine, the index is as of some earlier moment, and
// [Index.Checkpoint] says of which one.
func Open(folder string, cache *Cache) (*Index, error) {
	log := &failures{failed: make(chan struct{})}
	db, err := pebble.Open(folder, &pebble.Options{
		Cache: cache.blocks, Logger: log, MemTableSize: memTable, MemTableStopWritesThreshold: 2, MaxOpenFiles: 64,
		FormatMajorVersion: pebble.FormatNewest,
	})
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return &Index{db: db, log: log}, nil
}

// Failed is closed when the disk has failed under the index. Calls that change the index may then never return, and the
// others return errors.
func (x *Index) Failed() <-chan struct{} { return x.log.failed }

// Close writes what is in memory to the disk.
func (x *Index) Close() error {
	if err := x.db.Close(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

// Change is a file that was stored, if it has an entry, or removed.
type Change struct {
	File  File
	Entry *Entry
}

// Apply makes changes, in their order, all or none of them.
func (x *Index) Apply(changes []Change) error {
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
	if err := batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

func add(batch *pebble.Batch, e Entry) error {
	if strings.Contains(e.Key, "\x00") {
		return fmt.Errorf("index: the key %q has a zero byte", e.Key)
	}
	err := errors.Join(
		batch.Set(fileRecord(e.File), e.encode(), nil), batch.Set(textRecord(byKey, e.Key, e.File), nil, nil))
	for _, tag := range e.Tags {
		err = errors.Join(err, batch.Set(textRecord(byTag, tag, e.File), nil, nil))
	}
	return err
}

func remove(batch *pebble.Batch, f File) error {
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

func get(from pebble.Reader, f File) (e Entry, ok bool, err error) {
	value, closer, err := from.Get(fileRecord(f))
	if errors.Is(err, pebble.ErrNotFound) {
		return e, false, nil
	} else if err != nil {
		return e, false, fmt.Errorf("index: %w", err)
	}
	defer func() { _ = closer.Close() }()
	e, err = decode(f, value)
	return e, err == nil, err
}

// Get is the entry of a file; ok is false if the index does not have it.
func (x *Index) Get(f File) (e Entry, ok bool, err error) { return get(x.db, f) }

// WithKey are the files with an object's key: all of its slices and variants.
func (x *Index) WithKey(key string) iter.Seq2[File, error] {
	return x.files(append(append([]byte{byKey}, key...), 0))
}

// WithPrefix are the files whose object's key begins with a text, by key. A file is there once.
func (x *Index) WithPrefix(prefix string) iter.Seq2[File, error] {
	return x.files(append([]byte{byKey}, prefix...))
}

// WithTag are the files whose object has a tag.
func (x *Index) WithTag(tag string) iter.Seq2[File, error] {
	return x.files(append(append([]byte{byTag}, tag...), 0))
}

// InFolder are the files of a folder.
func (x *Index) InFolder(f Folder) iter.Seq2[File, error] { return x.files(folderRecords(f)) }

// files are the files at the end of the records that begin with a text. They are those of the moment of the call.
func (x *Index) files(start []byte) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		records, err := x.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(start)})
		if err != nil {
			yield(File{}, fmt.Errorf("index: %w", err))
			return
		}
		defer func() { _ = records.Close() }()
		for ok := records.First(); ok; ok = records.Next() {
			f, err := fileIn(records.Key())
			if !yield(f, err) || err != nil {
				return
			}
		}
		if err := records.Error(); err != nil {
			yield(File{}, fmt.Errorf("index: %w", err))
		}
	}
}

// after is the least text above all texts that begin with one. The kinds are below 255, so there is always one.
func after(start []byte) []byte {
	end := append([]byte{}, start...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

var checkpoint = append([]byte{meta}, "checkpoint"...)

// SetCheckpoint says that everything that nginx did before a moment is in the index.
func (x *Index) SetCheckpoint(at time.Time) error {
	value := binary.AppendVarint(nil, at.UnixNano())
	if err := x.db.Set(checkpoint, value, pebble.NoSync); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

// Checkpoint is the last moment of [Index.SetCheckpoint]; zero if there was none. Changes are written in their order,
// so that is true after a crash too.
func (x *Index) Checkpoint() (time.Time, error) {
	value, closer, err := x.db.Get(checkpoint)
	if errors.Is(err, pebble.ErrNotFound) {
		return time.Time{}, nil
	} else if err != nil {
		return time.Time{}, fmt.Errorf("index: %w", err)
	}
	defer func() { _ = closer.Close() }()
	at, n := binary.Varint(value)
	if n <= 0 {
		return time.Time{}, errDamaged
	}
	return time.Unix(0, at), nil
}
