package sealed

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Copy is a copy of an executable that nobody can change: not between its check and its start,
// and not while it runs.
type Copy struct{ file *os.File }

// New copies code into a file in memory that takes no more writes.
func New(name string, code []byte) (*Copy, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("prober-plugin-"+name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all such files can be run
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

// sealPatience is how long the kernel may hold pages of a copy that nobody uses.
const sealPatience = 5 * time.Second

// seal seals file. The kernel refuses that while somebody holds a page of it. On a busy machine
// that is the kernel itself: pages just written wait in lists of its own.
func seal(file *os.File) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		if !errors.Is(err, unix.EBUSY) || time.Since(start) > sealPatience {
			return os.NewSyscallError("seal", err)
		}
	}
}

// Path is where this process finds the copy.
func (c *Copy) Path() string { return fmt.Sprintf("/proc/self/fd/%d", c.file.Fd()) }

// Command is what a child runs, and the files that it needs for that. A script has to find
// itself after the start too, so the file stays open in the child.
func (c *Copy) Command() (path string, files []*os.File) {
	return "/proc/self/fd/3", []*os.File{c.file}
}

// Close frees the copy.
func (c *Copy) Close() error { return c.file.Close() }
