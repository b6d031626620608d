package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespace is an open network namespace. The kernel keeps it until Close. It is safe for concurrent use.
type Namespace struct {
	path string
	file *os.File
	id   identity
	own  bool // it is the program's own
}

// identity identifies a namespace. The kernel does not reuse it while a descriptor of the namespace is open.
type identity struct{ device, inode uint64 }

func identityOf(stat *unix.Stat_t) identity { return identity{uint64(stat.Dev), stat.Ino} }

// Open opens the network namespace at path, such as /run/netns/NAME or /proc/PID/ns/net. An error wraps an
// [*Error].
func Open(path string) (*Namespace, error) {
	home, err := program()
	if err != nil {
		return nil, failed(path, fmt.Errorf("the program's own: %w", err))
	}
	n, err := open(path)
	if err != nil {
		return nil, failed(path, err)
	}
	n.own = n.id == home.id
	return n, nil
}

func open(path string) (*Namespace, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // otherwise opening a FIFO would block
	if err != nil {
		if inner, ok := errors.AsType[*os.PathError](err); ok {
			err = os.NewSyscallError(inner.Op, inner.Err) // [Error] names the path
		}
		return nil, err
	}
	n := &Namespace{path: path, file: file}
	if n.id, err = check(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return n, nil
}

var errNoNamespace = errors.New("it is not a network namespace")

// check returns the identity of file, or an error if file is not a network namespace.
func check(file *os.File) (id identity, err error) {
	failed := control(file, func(fd int) {
		var system unix.Statfs_t
		var stat unix.Stat_t
		if err = unix.Fstatfs(fd, &system); err == nil && system.Type != unix.NSFS_MAGIC {
			err = errNoNamespace
		}
		if err != nil {
			return
		}
		if kind, failed := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); failed != nil || kind != unix.CLONE_NEWNET {
			err = errNoNamespace
			return
		}
		err = os.NewSyscallError("fstat", unix.Fstat(fd, &stat))
		id = identityOf(&stat)
	})
	return id, errors.Join(err, failed)
}

// control calls f with the descriptor of file. The descriptor stays open during the call.
func control(file *os.File, f func(fd int)) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// Current returns an error unless the path still leads to the namespace. After the end of a pod, its
// namespace exists while it is open, but nothing in it answers.
func (n *Namespace) Current() error {
	var stat unix.Stat_t
	switch err := unix.Stat(n.path, &stat); {
	case err != nil:
		return failed(n.path, os.NewSyscallError("stat", err))
	case identityOf(&stat) != n.id:
		return failed(n.path, errors.New("it was replaced"))
	}
	return nil
}

// Same reports whether n and other are the same namespace.
func (n *Namespace) Same(other *Namespace) bool { return n.id == other.id }

// IsOwn reports whether n is the namespace of the program.
func (n *Namespace) IsOwn() bool { return n.own }

// Close closes the namespace. Sockets that were made in it stay open.
func (n *Namespace) Close() error { return n.file.Close() }

// Socket makes a socket in the namespace, like socket(2). The socket is non-blocking and close-on-exec. Later
// operations on it, such as connect, happen in its namespace regardless of the caller's. An error wraps an
// [*Error], or is the error of socket(2).
//
// The call enters the namespace on a locked thread, which runs nothing else until it has left. This needs
// CAP_SYS_ADMIN.
func (n *Namespace) Socket(domain, kind, protocol int) (fd int, err error) {
	made := make(chan struct{})
	go func() { // if its thread cannot leave the namespace, the thread ends with the goroutine
		defer close(made)
		fd, err = n.socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	}()
	<-made
	return fd, err
}

// socket makes a socket. If the goroutine is still locked to its thread afterwards, the thread has not
// left the namespace, and the goroutine must end.
func (n *Namespace) socket(domain, kind, protocol int) (fd int, err error) {
	home, err := program()
	if err != nil {
		return -1, failed(n.path, fmt.Errorf("the program's own: %w", err))
	}
	runtime.LockOSThread()
	if err := n.enter(); err != nil { // the thread has not changed its namespace
		runtime.UnlockOSThread()
		return -1, failed(n.path, explain(err))
	}
	fd, err = unix.Socket(domain, kind, protocol)
	if back := home.enter(); back != nil {
		if err == nil {
			_ = unix.Close(fd)
		}
		return -1, failed(n.path, fmt.Errorf("a thread could not leave it, and was ended: %w", back))
	}
	runtime.UnlockOSThread()
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// setns is the system call setns. Tests replace it.
var setns = unix.Setns

// enter moves the thread into the namespace.
func (n *Namespace) enter() error {
	var entered error
	if err := control(n.file, func(fd int) { entered = os.NewSyscallError("setns", setns(fd, unix.CLONE_NEWNET)) }); err != nil {
		return os.ErrClosed
	}
	return entered
}

// explain adds the missing capability to an error of setns.
func explain(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w (needs CAP_SYS_ADMIN)", err)
	}
	return err
}

// own is the namespace of the program.
var own struct {
	mu sync.Mutex
	at *Namespace // nil until the first call of program
}

// program returns the namespace of the program, which stays open.
func program() (*Namespace, error) {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.at != nil {
		return own.at, nil
	}
	var at *Namespace
	var err error
	opened := make(chan struct{})
	go func() { // the caller's thread may be locked and in another namespace
		defer close(opened)
		at, err = open("/proc/thread-self/ns/net")
	}()
	<-opened
	own.at = at
	return at, err
}
