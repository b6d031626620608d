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

// nobody is a user who is not the one who runs the tests.
const nobody = 65534

// TestSocketRefusesOtherUsers connects as another user, where the tests may become one:
// elsewhere the modes in TestSocketIsPrivate have to do.
func TestSocketRefusesOtherUsers(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	if err := os.Chmod(dir, 0o755); err != nil { // only the mode of the socket is in the way
		t.Fatal(err)
	}
	listen(t, path)
	if os.Geteuid() != 0 {
		return
	}
	dialled := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
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
