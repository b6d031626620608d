package process

import (
	"os"
	"path/filepath"

	"github.com/daeace23/prober/plugin"
)

// socketLock is a file in the folder of a socket, locked as long as the program lives that
// has made the folder, however it ends.
const socketLock = "prober.lock"

// sockets is the folder that go-plugin makes for the socket of a process. It is of use until
// the process is connected.
type sockets struct {
	folder string
	lock   *os.File // nil where there are no locks
}

// keepSockets locks the folder against removeStaleSockets.
func keepSockets(folder string) sockets {
	return sockets{folder, lockSockets(folder)}
}

// remove removes the folder. It may be called again.
func (s *sockets) remove() error {
	if s.folder == "" {
		return nil
	}
	err := os.RemoveAll(s.folder)
	if s.lock != nil {
		_ = s.lock.Close()
	}
	*s = sockets{}
	return err
}

// removeStaleSockets removes the folders of programs that were killed while a process of
// theirs was starting.
func removeStaleSockets() {
	locks, _ := filepath.Glob(filepath.Join(plugin.SocketTemp(), "plugin-dir*", socketLock))
	for _, path := range locks {
		if isStale(path) {
			_ = os.RemoveAll(filepath.Dir(path)) // to be tried again at the next start
		}
	}
}
