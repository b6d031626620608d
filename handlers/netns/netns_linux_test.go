package netns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/probe"
)

// open opens the namespace of n until the end of the test.
func open(t testing.TB, n *netnstest.Net) *netns.Namespace {
	t.Helper()
	namespace, err := netns.Open(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	return namespace
}

// namespaceOf returns the namespace of the current thread.
func namespaceOf(t testing.TB) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// isIn reports whether a socket belongs to the namespace of n, the only one with a listener at at.
func isIn(t testing.TB, fd int, at net.Addr) bool {
	t.Helper()
	to := &unix.SockaddrInet4{Port: at.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	switch err := unix.Connect(fd, to); err {
	case nil, unix.EINPROGRESS:
	default:
		return false
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if _, err := unix.Poll(poll, 10_000); err != nil {
		t.Fatal(err)
	}
	failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return err == nil && failed == 0
}

// listen returns the address of a listener in n.
func listen(t testing.TB, n *netnstest.Net) net.Addr {
	t.Helper()
	var l net.Listener
	var err error
	n.Do(func() { l, err = net.Listen("tcp4", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr()
}

func TestSocketsAreMadeInTheNamespaceAndThreadsStay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	one, other := netnstest.New(t), netnstest.New(t)
	in, at := open(t, one), listen(t, one)
	apart := open(t, other)
	home := namespaceOf(t)
	var wg sync.WaitGroup
	var strays atomic.Int32
	for range 32 {
		wg.Go(func() {
			for range 50 {
				fd, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if !isIn(t, fd, at) {
					strays.Add(1)
				}
				_ = unix.Close(fd)
				fd, err = apart.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if isIn(t, fd, at) {
					strays.Add(1)
				}
				_ = unix.Close(fd)
				if namespaceOf(t) != home {
					t.Error("a goroutine runs in another namespace")
					return
				}
			}
		})
	}
	wg.Wait()
	if n := strays.Load(); n > 0 {
		t.Errorf("%d sockets are in another namespace", n)
	}
	checkThreads(t, home, one.Path, other.Path)
}

// checkThreads checks that all threads of this program are in the namespace home.
func checkThreads(t *testing.T, home string, paths ...string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		path := fmt.Sprintf("/proc/%d/task/%s/ns/net", os.Getpid(), thread.Name())
		name, err := os.Readlink(path)
		if err != nil || name == home || thread.Name() == strconv.Itoa(os.Getpid()) {
			continue // the thread has ended; the main thread never does, see TestThreadThatCannotLeaveIsEnded
		}
		if !strings.Contains(strings.Join(paths, " ")+" ", path+" ") {
			t.Errorf("thread %s is in %s, not in %s", thread.Name(), name, home)
		}
	}
}

func TestSocketIsNonBlockingAndClosedInPrograms(t *testing.T) {
	in := open(t, netnstest.New(t))
	fd, err := in.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || status&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %#x, %v", status, err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v", flags, err)
	}
}

// recordThreads returns a replacement for setns that adds the thread IDs of its calls to ids, and returns the
// errors of fail.
func recordThreads(ids *[]int, fail func(call int) error) func(fd, kind int) error {
	var calls int
	return func(fd, kind int) error {
		*ids = append(*ids, unix.Gettid())
		if err := fail(calls); err != nil {
			calls++
			return err
		}
		calls++
		return unix.Setns(fd, kind)
	}
}

func TestThreadThatCannotLeaveIsEnded(t *testing.T) {
	n := netnstest.New(t)
	in := open(t, n)
	home := namespaceOf(t)
	for range 50 {
		var ids []int
		restore := netns.ReplaceSetns(recordThreads(&ids, func(call int) error {
			if call == 1 {
				return unix.EINVAL
			}
			return nil
		}))
		before := sockets(t)
		fd, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		restore()
		if fd != -1 || err == nil || !strings.Contains(err.Error(), "a thread could not leave it, and was ended: setns: invalid argument") {
			t.Fatalf("got %d, %v", fd, err)
		}
		if len(ids) != 2 || ids[0] != ids[1] {
			t.Fatalf("threads %v", ids)
		}
		if after := sockets(t); after != before {
			t.Fatalf("%d sockets, %d before", after, before)
		}
		var wg sync.WaitGroup
		for range 32 { // use all existing threads
			wg.Go(func() {
				if now := namespaceOf(t); now != home {
					t.Errorf("a goroutine runs in %s", now)
				}
			})
		}
		wg.Wait()
	}
	if _, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		t.Error(err)
	}
}

// sockets returns the number of sockets of this process.
func sockets(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

func TestNamespaceThatCannotBeEntered(t *testing.T) {
	in := open(t, netnstest.New(t))
	var ids []int
	defer netns.ReplaceSetns(recordThreads(&ids, func(int) error { return unix.EPERM }))()
	_, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	want := "network namespace " + in.Path() + ": setns: operation not permitted (needs CAP_SYS_ADMIN)"
	if err == nil || err.Error() != want || !probe.IsHostTrouble(err) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	pipe := filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "open: no such file or directory"},
		{file, "it is not a network namespace"},
		{pipe, "it is not a network namespace"},
		{dir, "it is not a network namespace"},
		{"/proc/self/ns/mnt", "it is not a network namespace"},
	} {
		_, err := netns.Open(tc.path)
		if want := "network namespace " + tc.path + ": " + tc.want; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if e, ok := errors.AsType[*netns.Error](err); !ok || e.Path != tc.path || probe.ReasonOf(err) != probe.ReasonHostResources {
			t.Errorf("%s: reason %q of %v", tc.path, probe.ReasonOf(err), err)
		}
	}
}

func TestClosedNamespaceMakesNoSockets(t *testing.T) {
	n := netnstest.New(t)
	in := open(t, n)
	if got := netnstest.Open(t); got != 1 {
		t.Errorf("%d namespaces are open", got)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); !errors.Is(err, os.ErrClosed) || !probe.IsHostTrouble(err) {
		t.Errorf("got %v", err)
	}
	if got := netnstest.Open(t); got != 0 {
		t.Errorf("%d namespaces are open", got)
	}
}

func TestCurrentOfReplacedNamespaceIsError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net")
	link := func(to string) {
		t.Helper()
		_ = os.Remove(path)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	one, other := netnstest.New(t), netnstest.New(t)
	link(one.Path)
	in, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Current(); err != nil {
		t.Error(err)
	}
	link(other.Path)
	if err := in.Current(); err == nil || err.Error() != "network namespace "+path+": it was replaced" {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := in.Current(); !errors.Is(err, os.ErrNotExist) || !probe.IsHostTrouble(err) {
		t.Errorf("got %v", err)
	}
}

func TestOwnNamespaceIsNone(t *testing.T) {
	own, err := netns.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if ctx := netns.With(t.Context(), own); netns.From(ctx) != nil || !own.IsOwn() {
		t.Error("the program's own namespace is another one")
	}
	if open(t, netnstest.New(t)).IsOwn() {
		t.Error("another namespace is the program's own")
	}
}

func TestContext(t *testing.T) {
	in := open(t, netnstest.New(t))
	type other struct{}
	outer, cancel := context.WithCancel(context.WithValue(t.Context(), other{}, 1))
	ctx := netns.With(outer, in)
	if netns.From(ctx) != in || ctx.Value(other{}) != 1 || netns.From(outer) != nil {
		t.Error("the context has another namespace")
	}
	if netns.From(netns.With(ctx, nil)) != nil {
		t.Error("a nil namespace is not that of the program")
	}
	if netns.With(outer, nil) != outer {
		t.Error("a context without a namespace is wrapped")
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	cancel()
	<-inner.Done()
}

// TestContextWithoutNamespaceCostsNothing checks that the program's own namespace costs a probe no
// allocations.
func TestContextWithoutNamespaceCostsNothing(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _ = netns.From(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFrom(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		if netns.From(ctx) != nil {
			b.Fatal("there is a namespace")
		}
	}
}

func BenchmarkSocket(b *testing.B) {
	b.Run("namespace=own", func(b *testing.B) {
		for b.Loop() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			_ = unix.Close(fd)
		}
	})
	b.Run("namespace=other", func(b *testing.B) {
		in := open(b, netnstest.New(b))
		for b.Loop() {
			fd, err := in.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				b.Fatal(err)
			}
			_ = unix.Close(fd)
		}
	})
}
