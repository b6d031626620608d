package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// program is a copy of an executable that nobody can change: not between its check and
// its start, and not while it runs.
type program struct{ file *os.File }

// seal copies code into a file in memory that takes no more writes.
func seal(name string, code []byte) (*program, error) {
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
		err = takeNoMore(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &program{file}, nil
}

// sealPatience is how long the kernel may hold pages of a copy that nobody uses.
const sealPatience = 5 * time.Second

// takeNoMore seals file. The kernel refuses that while somebody holds a page of it, and on a
// busy machine that is the kernel itself: pages just written wait in lists of its own.
func takeNoMore(file *os.File) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		if !errors.Is(err, unix.EBUSY) || time.Since(start) > sealPatience {
			return os.NewSyscallError("seal", err)
		}
	}
}

// path is where this process finds the copy.
func (p *program) path() string { return fmt.Sprintf("/proc/self/fd/%d", p.file.Fd()) }

// command is what a child runs, and the files that it needs for that. A script has to
// find itself after the start too, so the file stays open in the child.
func (p *program) command() (path string, files []*os.File) {
	return "/proc/self/fd/3", []*os.File{p.file}
}

func (p *program) close() error { return p.file.Close() }
