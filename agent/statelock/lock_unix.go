//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

// Package statelock keeps two agents from using one state directory.
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
)

// Lock keeps other agents out of the state directory until what it returns is closed,
// which the end of the process does too, however it ends. Where nothing can be written, or
// the file system knows no locks, there is none: it is nil then. A full disk may have no place
// for the file either, and is no reason not to probe.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
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

// writePID says who has locked f, where there is room for that: the lock holds without.
func writePID(f *os.File) {
	_ = f.Truncate(0)
	_, _ = fmt.Fprintln(f, os.Getpid())
}

// readPID says which process has locked f, as far as it has told; "" where it has not yet.
func readPID(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, 20))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
