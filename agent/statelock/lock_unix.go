//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

// Package statelock prevents two agents from using the same state directory.
package statelock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/daeace23/prober/internal/ownership"
)

// Lock locks the state directory against other agents, until the returned file is closed or the process ends.
// It returns nil if the lock file cannot be written, as on a read-only or full disk, or if the file system
// has no locks: the agent runs without a lock then.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	f, err := ownership.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	switch {
	case err == nil:
		writePID(f)
		return f, nil
	case err == syscall.EWOULDBLOCK:
		err = fmt.Errorf("state directory %s is in use by another prober%s", dir, readPID(f))
	case err == syscall.ENOLCK, errors.Is(err, errors.ErrUnsupported):
		err = nil
	default:
		err = fmt.Errorf("state directory: %w", &fs.PathError{Op: "lock", Path: f.Name(), Err: err})
	}
	f.Close()
	return nil, err
}

// pidSize is the size of the contents of a lock file.
const pidSize = 20

// writePID replaces the process ID in f by the ID of this process. The lock does not depend on it.
func writePID(f *os.File) {
	_, _ = f.WriteAt(fmt.Appendf(nil, "%-*d\n", pidSize-1, os.Getpid()), 0)
}

// readPID returns the ID of the process that has locked f as text for an error; "" if unknown.
func readPID(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, pidSize))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
