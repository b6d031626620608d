package netnstest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Net is a network namespace with only a loopback interface. It exists until the end of its test.
type Net struct {
	// Path is the path of the namespace.
	Path  string
	calls chan func()
}

// New creates a namespace.
func New(t testing.TB) *Net {
	t.Helper()
	n := &Net{calls: make(chan func())}
	ready := make(chan error)
	var ended sync.WaitGroup
	ended.Go(func() { n.run(ready) })
	err := <-ready
	if errors.Is(err, unix.EPERM) {
		t.Skipf("probes in network namespaces are not tested: this user may not make one: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(n.calls)
		ended.Wait()
	})
	return n
}

// Do calls f in the namespace. Sockets that f creates stay in the namespace.
func (n *Net) Do(f func()) {
	done := make(chan struct{})
	n.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// run creates the namespace, and calls the functions passed to Do. It does not unlock its thread, so that the thread
// ends with the goroutine.
func (n *Net) run(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() { // the main thread does not end, and would stay in the namespace
		var other sync.WaitGroup
		other.Go(func() { n.run(ready) })
		other.Wait()
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		n.Path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		err = loopbackUp()
	}
	if ready <- err; err != nil {
		return
	}
	for f := range n.calls {
		f()
	}
}

// loopbackUp brings the loopback interface up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("loopback: %w", errno)
	}
	return nil
}

// Open returns how many file descriptors of this process refer to a network namespace other than its own.
func Open(t testing.TB) (n int) {
	t.Helper()
	own, err := os.Stat("/proc/thread-self/ns/net") // not /proc/self: the main thread may be in another namespace
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		name := "/proc/self/fd/" + d.Name()
		if to, err := os.Readlink(name); err != nil || len(to) < 4 || to[:4] != "net:" {
			continue
		}
		if info, err := os.Stat(name); err == nil && !os.SameFile(own, info) {
			n++
		}
	}
	return n
}
