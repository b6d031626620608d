package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/internal/abi"
)

// openNode opens a path without reading it, so that no device and no FIFO does anything, and asks the kernel where it
// is. Kernels before 5.6, and sandboxes without openat2, walk.
func openNode(path string, allowed func(string) error) (*node, error) {
	fd, err := openPath(path)
	if err == unix.ENOSYS || err == unix.EPERM {
		return walk(path, allowed)
	}
	if err != nil {
		return nil, err
	}
	handle := os.NewFile(uintptr(fd), path)
	n, err := nodeOf(handle, fd, path, allowed)
	if err != nil {
		handle.Close()
	}
	return n, err
}

// openPath opens a path. Links of /proc that lead to other processes' files are not followed.
func openPath(path string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	for {
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, &how); err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// nodeOf checks where an opened path is.
func nodeOf(handle *os.File, fd int, path string, allowed func(string) error) (*node, error) {
	link := fmt.Sprintf("/proc/self/fd/%d", fd)
	at, err := os.Readlink(link)
	if err != nil {
		return nil, err
	}
	if at != path {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		if st.Nlink == 0 { // removed meanwhile
			return nil, fs.ErrNotExist
		}
		if err := allowed(at); err != nil {
			return nil, &LinkError{path, at, err}
		}
	}
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	return &node{
		info: info, close: func() { handle.Close() },
		open:   func() (file, error) { return reopen(link, info) },
		statfs: func() (abi.FilesystemInfo, error) { return statfs(fd) },
	}, nil
}

// reopen opens the file of a descriptor for reading.
func reopen(link string, info fs.FileInfo) (file, error) {
	if info.IsDir() {
		return os.Open(link)
	}
	fd, err := unix.Open(link, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return rawFile(fd), nil
}

// rawFile reads a descriptor outside of Go's poller, so that a file without data is an error and not a wait.
type rawFile int

// ReadAt implements [io.ReaderAt].
func (f rawFile) ReadAt(b []byte, offset int64) (n int, err error) {
	for {
		n, err = unix.Pread(int(f), b, offset)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

// ReadDir implements file.
func (rawFile) ReadDir(int) ([]fs.DirEntry, error) { return nil, ErrFile }

// Close implements [io.Closer].
func (f rawFile) Close() error { return unix.Close(int(f)) }

// statfs returns the numbers of a file system, in bytes.
func statfs(fd int) (abi.FilesystemInfo, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fstatfs(fd, &st)
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	return abi.FilesystemInfo{
		Total: int64(st.Blocks) * unit, Free: int64(st.Bfree) * unit, Available: int64(st.Bavail) * unit,
		Inodes: int64(st.Files), InodesFree: int64(st.Ffree), ReadOnly: st.Flags&unix.ST_RDONLY != 0,
	}, err
}
