// Package sockets removes the folders of sockets that go-plugin makes for processes, also those of
// programs that were killed. sockets.go keeps a folder, lock_unix.go tells whose folders are stale.
package sockets

import (
	"os"
	"path/filepath"

	"github.com/daeace23/prober/plugin"
)

// lockName is a file in the folder of a socket. It is locked as long as the program lives that
// made the folder.
const lockName = "prober.lock"

// Folder is the folder of the socket of a process. It is needed until the process is connected.
type Folder struct {
	path string
	lock *os.File // nil where there are no locks
}

// Keep locks the folder at path against RemoveStale.
func Keep(path string) Folder {
	return Folder{path, lock(path)}
}

// Remove removes the folder. It may be called again.
func (f *Folder) Remove() error {
	if f.path == "" {
		return nil
	}
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
	*f = Folder{}
	return err
}

// RemoveStale removes the folders of programs that were killed while a process of theirs was
// starting.
func RemoveStale() {
	locks, _ := filepath.Glob(filepath.Join(plugin.SocketTemp(), "plugin-dir*", lockName))
	for _, path := range locks {
		if isStale(path) {
			_ = os.RemoveAll(filepath.Dir(path)) // to be tried again at the next start
		}
	}
}
