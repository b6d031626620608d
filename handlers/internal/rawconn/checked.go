package rawconn

import (
	"context"
	"errors"
	"net"
)

// Checked wraps dial, a function of the embedder. If dial returns neither a connection nor an error, the
// wrapper returns an error. Otherwise the goroutine that closes the connection at the end of the context
// would panic.
func Checked(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if conn == nil && err == nil {
			return nil, errors.New("DialContext returned neither a connection nor an error")
		}
		return conn, err
	}
}
