package sealed

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Copy is an immutable copy of an executable. It cannot change between its check and its start, or while
// it runs.
type Copy struct{ file *os.File }

// New copies code into a file in memory and seals it against writes.
func New(name string, code []byte) (*Copy, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("prober-plugin-"+name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, all such files are executable
		fd, err = unix.MemfdCreate("prober-plugin-"+name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "prober-plugin-"+name)
	if _, err = file.Write(code); err == nil {
		err = seal(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Copy{file}, nil
}

// sealPatience is how long seal waits for the kernel to release pages of the copy.
const sealPatience = 5 * time.Second

// seal seals file. The kernel refuses to seal while a page of the file is in use. On a busy machine, the
// kernel itself still uses pages that were just written.
func seal(file *os.File) error {
	for start, pause := time.Now(), 100*time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		if !errors.Is(err, unix.EBUSY) || time.Since(start) > sealPatience {
			return os.NewSyscallError("seal", err)
		}
		time.Sleep(pause)
	}
}

// Check returns nil, because the copy cannot change.
func (c *Copy) Check() error { return nil }

// Command returns the path that a child runs, and the files that it inherits. The file stays open in the
// child, because the interpreter of a script opens the path after the start.
func (c *Copy) Command() (path string, files []*os.File) {
	return "/proc/self/fd/3", []*os.File{c.file}
}

// Close frees the copy.
func (c *Copy) Close() error { return c.file.Close() }
