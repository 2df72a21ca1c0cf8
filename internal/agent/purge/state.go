package purge

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readState reads how far a store has applied the owner's journal. The result is the zero value if the file does not
// exist or describes the journal of another owner. If the file is damaged, Applied is 1: there was a journal, but the
// store counts as having applied almost nothing of it.
func readState(path, owner string) (s state, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	} else if err != nil {
		return state{}, err
	}
	if json.Unmarshal(text, &s) != nil {
		return state{Applied: 1}, nil // the store has obeyed a journal, and waits for that journal
	}
	if s.Owner != owner {
		return state{}, nil // all rules are applied once more
	}
	return s, nil
}

// state is the content of the file State.
type state struct {
	Owner   string `json:"owner"`
	Applied int64  `json:"applied"`
	// Policies identifies the cache policies by which nginx stored objects, because the keys of URLs depend on these
	// policies.
	Policies string `json:"policies"`
	generations
}

// keepState syncs the disk, and then writes to the file State how far the store has applied the journal.
func (a *applier) keepState(applied int64) error {
	folder, err := os.Open(a.Folder)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(folder.Fd()))
	if err = errors.Join(err, folder.Close()); err != nil {
		return err
	}
	a.purger.mutex.RLock()
	kept := a.state(min(applied, a.applied))
	a.purger.mutex.RUnlock()
	return a.write(kept)
}

// state returns the content of the file State for a place. The caller holds the mutex.
func (s *store) state(applied int64) state {
	return state{s.Owner, applied, s.purger.book.hash, s.generations}
}

// write writes the file State.
func (a *applier) write(what state) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := replace(a.State, text); err != nil {
		return err
	}
	a.kept, a.keptPolicies = what.Applied, what.Policies
	return nil
}

// replace replaces a file atomically: the file always has either its new or its old content.
func replace(path string, text []byte) error {
	file, err := os.OpenFile(path+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the path is ours
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}
