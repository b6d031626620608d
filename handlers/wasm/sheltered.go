package wasm

import (
	"context"
	"net"
)

// dialler is how net/http dials.
type dialler func(ctx context.Context, network, addr string) (net.Conn, error)

// sheltering is dial for the goroutines of net/http, where nobody recovers a panic: it is
// an error, and so are those of the connection.
func sheltering(dial dialler) dialler {
	return func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		defer contain(&err)
		if c, err = dial(ctx, network, addr); err != nil {
			return nil, err
		}
		return sheltered{c}, nil
	}
}

// sheltered is a connection whose panics are errors.
type sheltered struct{ net.Conn }

func (s sheltered) Read(p []byte) (int, error) { return readContained(s.Conn, p) }

func (s sheltered) Write(p []byte) (n int, err error) {
	defer contain(&err)
	return s.Conn.Write(p)
}

func (s sheltered) Close() (err error) {
	defer contain(&err)
	return s.Conn.Close()
}
