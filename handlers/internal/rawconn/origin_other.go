//go:build !linux

package rawconn

import (
	"context"
	"errors"
	"net"
)

// Dial is not called on this system, which has no network namespaces.
func (o Origin) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
