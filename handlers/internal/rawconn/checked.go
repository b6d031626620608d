package rawconn

import (
	"context"
	"errors"
	"net"
)

// Checked returns dial, a function of the embedder, as one that returns a connection or an error. Without
// either, what closes the connection at the end of the context would panic, in a goroutine of its own.
func Checked(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if conn == nil && err == nil {
			return nil, errors.New("DialContext returned neither a connection nor an error")
		}
		return conn, err
	}
}
