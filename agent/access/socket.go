package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/ownership"
)

// socketName is the name of the socket in its default folder.
const socketName = "prober.sock"

// ErrSocketInUse matches the error for the socket of another running agent.
var ErrSocketInUse = errors.New("another agent is listening there")

// SystemSocket is the default socket of an agent that root runs on Linux.
const SystemSocket = "/run/prober/" + socketName

// DefaultSocket returns the default path of the socket: [SystemSocket] for root on Linux; else prober.sock in
// XDG_RUNTIME_DIR; else prober/prober.sock in the user's cache folder; "" if none of these exists.
func DefaultSocket(lookupEnv func(name string) (string, bool)) string {
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return SystemSocket
	}
	if dir, ok := lookupEnv("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, socketName)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "prober", socketName)
	}
	return ""
}

// Socket is a unix socket. Only the user who runs the agent can connect.
type Socket struct {
	net.Listener
	path string
	file fs.FileInfo // of the socket, to detect a replacement
}

// ListenSocket listens at path, and creates its folder. It replaces the socket of a killed agent. Any other
// file at path is an error, and so is a path where other users could replace the socket.
func ListenSocket(ctx context.Context, path string) (*Socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	listener, err := bind(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := &Socket{Listener: listener, path: path, file: info}
	if err := ownership.CheckPath(path); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return s, nil
}

// Close closes the listener and removes the socket, unless it was replaced.
func (s *Socket) Close() error {
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.file) {
		_ = os.Remove(s.path) // if this fails, the next agent removes it
	}
	return s.Listener.Close()
}

// Addr returns the path of the socket, which was created elsewhere and moved there.
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Path returns the path of the socket.
func (s *Socket) Path() string { return s.path }

// removeStale removes a socket of this user at path if no process listens on it.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is not a socket")
	case !ours(info):
		return errors.New("there is a socket of another user")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return ErrSocketInUse
	}
	if !refused(err) { // the agent may be busy
		return fmt.Errorf("%w: %w", ErrSocketInUse, err)
	}
	return os.Remove(path)
}

// refused reports whether err means that no process listens on a socket. Windows has another error number.
func refused(err error) bool {
	const wsaConnRefused = syscall.Errno(10061)
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, wsaConnRefused)
}
