package purge

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readState reads what a store has applied of the owner's journal: nothing if the file does not exist or is about the
// journal of somebody else. If it is damaged, the store obeys as good as nothing of a journal that there was.
func readState(path, owner string) (s state, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	} else if err != nil {
		return state{}, err
	}
	if json.Unmarshal(text, &s) != nil {
		return state{Applied: 1}, nil // it has obeyed a journal, and waits for it
	}
	if s.Owner != owner {
		return state{}, nil // everything is applied once more
	}
	return s, nil
}

// state is the content of the file State.
type state struct {
	Owner   string `json:"owner"`
	Applied int64  `json:"applied"`
	// Policies identifies the cache policies by which nginx stored, as the keys of URLs depend on them.
	Policies string `json:"policies"`
	generations
}

// keepState writes what the store has applied, after what it has written for that.
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

// replace writes a file that is whole or as before.
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
