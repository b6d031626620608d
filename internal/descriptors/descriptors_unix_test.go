//go:build unix

package descriptors

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// inheritable returns a file descriptor that child processes inherit.
func inheritable(t *testing.T) int {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestCloseOnExec(t *testing.T) {
	lists := map[string]func(){
		"of this system": CloseOnExec, "listed": func() { closeOnExec("/dev/fd") }, "without a list": func() { closeOnExec("/nosuch") },
	}
	for name, mark := range lists {
		fd := inheritable(t)
		mark()
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: flags %#x, %v", name, flags, err)
		}
	}
	for fd := range 3 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("stream %d is close-on-exec", fd)
		}
	}
}
