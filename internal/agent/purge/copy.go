package purge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Copy looks for an object's files on a disk and in memory. It reads the files and not the indexes, so it also finds
// files that nginx has just stored. If the disk hangs, Copy returns when its context ends, but one goroutine remains
// until the disk answers. Until then, later calls for this disk also return an error when their contexts end.
func (p *Purger) Copy(ctx context.Context, q objects.Lookup) (objects.Copy, error) {
	l := lookup{key: cachekey.Parse(q.Key), slice: max(q.Slice, 0)}
	p.mutex.RLock()
	disk := p.stores[q.Disk]
	if disk != nil {
		l.disk, l.key.Generation = disk.Folder, disk.generations.active()
	}
	if memory := p.stores[purge.MemoryStore]; memory != nil {
		l.memory = memory.Folder
	}
	p.mutex.RUnlock()
	if disk == nil {
		return objects.Copy{}, fmt.Errorf("there is no disk %q", q.Disk)
	}
	select {
	case disk.listing <- struct{}{}: // one call at a time, as for listings
	case <-ctx.Done():
		return objects.Copy{}, fmt.Errorf("disk %s does not answer, or answers somebody else: %w", q.Disk, ctx.Err())
	}
	type answer struct {
		copy objects.Copy
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-disk.listing }()
		found, err := l.find()
		answers <- answer{found, err}
	}()
	select {
	case a := <-answers:
		return a.copy, a.err
	case <-ctx.Done():
		return objects.Copy{}, fmt.Errorf("disk %s does not answer: %w", q.Disk, ctx.Err())
	}
}

// lookup defines where to look for an object: in the folder of a disk's cache, and in the folder of the memory tier.
// memory is "" if there is no memory tier.
type lookup struct {
	disk, memory string
	// key is the object's key on the disk.
	key   cachekey.Key
	slice int64
}

func (l lookup) find() (found objects.Copy, err error) {
	whole, header, err := read(cachekey.Path(l.disk, l.key.String()))
	if err != nil {
		return found, err
	}
	found.Bytes, found.File = whole, header.freshness()
	if l.memory != "" {
		_, header, err := read(cachekey.Path(l.memory, l.key.Object()))
		if err != nil {
			return found, err
		}
		found.Memory = header.freshness()
	}
	for n := int64(0); l.slice > 0 && n < objects.MaxSlices; n++ {
		l.key.Slice = cachekey.NthSlice(l.slice, n)
		size, header, err := read(cachekey.Path(l.disk, l.key.String()))
		if err != nil {
			return found, err
		}
		if size == 0 {
			continue
		}
		if found.Slices == 0 {
			found.Length = header.length()
			if whole == 0 {
				found.File = header.freshness()
			}
		}
		found.Bytes, found.Slices = found.Bytes+size, found.Slices+1
	}
	return found, nil
}

// header is the header of a file; the zero value stands for no file.
type header struct{ *cachefile.Header }

// read returns the size and the header of a file. A file that nginx would not use counts as missing.
func read(path string) (size int64, h header, err error) {
	file, err := os.Open(path) //nolint:gosec // a file of nginx's
	if errors.Is(err, fs.ErrNotExist) {
		return 0, h, nil
	}
	if err != nil {
		return 0, h, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return 0, h, err
	}
	content, err := cachefile.Read(file)
	switch {
	case errors.Is(err, cachefile.ErrVersion) || errors.Is(err, cachefile.ErrDamaged):
		return 0, h, nil
	case err != nil:
		return 0, h, err
	}
	return info.Size(), header{&content}, nil
}

func (h header) freshness() (f objects.Freshness) {
	if h.Header == nil {
		return f
	}
	f.Until = h.ValidUntil
	if h.Updating > 0 {
		f.WhileRenewed = h.ValidUntil.Add(h.Updating)
	}
	if h.Error > 0 {
		f.OnErrors = h.ValidUntil.Add(h.Error)
	}
	return f
}

// length returns the size of the whole object from the Content-Range header of a slice; 0 if the slice does not state
// the size (RFC 9110, section 14.4).
func (h header) length() int64 {
	for _, value := range h.Values("Content-Range") {
		_, size, _ := strings.Cut(value, "/")
		if bytes, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64); err == nil && bytes > 0 {
			return bytes
		}
	}
	return 0
}
