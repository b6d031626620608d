//go:build unix

package access

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// maxPath is the limit of a socket's path in bytes. macOS has the lowest limit.
const maxPath = 103

// bind listens at path. It creates the socket in a private folder, sets its mode and then moves it, so that
// other users can never connect.
func bind(ctx context.Context, path string) (net.Listener, error) {
	private, err := os.MkdirTemp(filepath.Dir(path), ".p") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	inside := filepath.Join(private, "s")
	if long := len(inside) - maxPath; long > 0 {
		return nil, fmt.Errorf("the path of its folder is %d bytes too long for a unix socket", long)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", inside)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // it is moved
	if err = os.Chmod(inside, 0o600); err == nil {
		err = os.Rename(inside, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// ours reports whether a file belongs to the user who runs the agent.
func ours(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
