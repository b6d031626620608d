//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package sockets

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock makes the lock of a folder. Its name appears when it is locked already. Where
// that fails the folder has none, and stays when the program is killed.
func lock(folder string) *os.File {
	path := filepath.Join(folder, lockName)
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	if !tryLock(f) || os.Rename(f.Name(), path) != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// isStale reports whether the lock at path is ours, and nobody holds it.
func isStale(path string) bool {
	// Others may have put there what blocks, or leads elsewhere.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && tryLock(f)
}

func tryLock(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	return err == nil
}
