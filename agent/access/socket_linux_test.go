package access_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is a user other than the one who runs the tests.
const nobody = 65534

// The test connects as another user, if it can switch users. TestSocketIsPrivate checks the modes.
func TestSocketRefusesOtherUsers(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	if err := os.Chmod(dir, 0o755); err != nil { // so that the mode of the socket decides
		t.Fatal(err)
	}
	listen(t, path)
	if os.Geteuid() != 0 {
		return
	}
	dialled := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, err := syscall.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); err != 0 {
			dialled <- err
			return
		}
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		dialled <- err
	}()
	if err := <-dialled; !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user: %v, want EACCES", err)
	}
}
