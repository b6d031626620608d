//go:build !unix

package access

import (
	"context"
	"io/fs"
	"net"
)

// bind listens at path. The access list of its folder decides who can connect.
func bind(ctx context.Context, path string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // Socket.Close removes it
	return listener, nil
}

func ours(fs.FileInfo) bool { return true }
