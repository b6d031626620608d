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

// Namespace is an open network namespace, which stays as long as it is open. It is safe for concurrent use.
// See RATIONALE.md, "Why is a namespace entered for each socket, and not by a helper process?"
type Namespace struct {
	path string
	file *os.File
	id   identity
	own  bool // it is that of the program
}

// identity tells namespaces apart. It is not used again while a descriptor of the namespace is open.
type identity struct{ device, inode uint64 }

func identityOf(stat *unix.Stat_t) identity { return identity{uint64(stat.Dev), stat.Ino} }

// Open opens the network namespace at path, such as /run/netns/NAME or /proc/PID/ns/net. An error is an
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
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would block
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

// check returns an error unless file is a network namespace.
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

// control calls f with the descriptor of file, which stays open meanwhile.
func control(file *os.File, f func(fd int)) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// Current returns an error unless the path still leads to the namespace. After the end of a pod its
// namespace may live on while it is open, but nothing in it answers any more.
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

// Socket makes a socket in the namespace, as socket(2) does; it is non-blocking, and closed in programs
// that are started. What is done with it later, such as connect, happens in its namespace wherever the
// caller is. An error is an [*Error], or that of socket(2).
//
// The call enters the namespace on a thread that runs nothing else until it has left it. It needs
// CAP_SYS_ADMIN.
func (n *Namespace) Socket(domain, kind, protocol int) (fd int, err error) {
	made := make(chan struct{})
	go func() { // whose thread ends with it if that cannot be used again
		defer close(made)
		fd, err = n.socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	}()
	<-made
	return fd, err
}

// socket makes a socket. If it returns a goroutine that is locked to its thread, the thread is in the
// namespace: the goroutine has to end.
func (n *Namespace) socket(domain, kind, protocol int) (fd int, err error) {
	home, err := program()
	if err != nil {
		return -1, failed(n.path, fmt.Errorf("the program's own: %w", err))
	}
	runtime.LockOSThread()
	if err := n.enter(); err != nil { // the thread is where it was
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

// setns is the system call. Tests replace it.
var setns = unix.Setns

// enter moves the thread into the namespace.
func (n *Namespace) enter() error {
	var entered error
	if err := control(n.file, func(fd int) { entered = os.NewSyscallError("setns", setns(fd, unix.CLONE_NEWNET)) }); err != nil {
		return os.ErrClosed
	}
	return entered
}

// explain adds to the error of setns what the program lacks.
func explain(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w (needs CAP_SYS_ADMIN)", err)
	}
	return err
}

// own is the namespace of the program.
var own struct {
	mu sync.Mutex
	at *Namespace // nil until a namespace is opened
}

// program returns the namespace of the program. It stays open.
func program() (*Namespace, error) {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.at != nil {
		return own.at, nil
	}
	var at *Namespace
	var err error
	opened := make(chan struct{})
	go func() { // not on the caller's thread, which may be locked and elsewhere
		defer close(opened)
		at, err = open("/proc/thread-self/ns/net")
	}()
	<-opened
	own.at = at
	return at, err
}
