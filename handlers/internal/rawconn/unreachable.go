package rawconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/daeace23/prober/probe"
)

// Unreachable distinguishes two causes of [syscall.ENETUNREACH] in err, the error of a TCP dial. If a
// router on the path sent it, Unreachable returns a [*probe.Error] without a reason, because this host is
// not at fault. If this host has no route, it returns err. To find out, it connects a UDP socket, which
// sends nothing and fails only without a route.
func Unreachable(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), network, address string, err error) error {
	if !strings.HasPrefix(network, "tcp") || !errors.Is(err, syscall.ENETUNREACH) {
		return err
	}
	conn, routed := dial(ctx, "udp"+strings.TrimPrefix(network, "tcp"), address)
	if routed == nil {
		_ = conn.Close()
	}
	if errors.Is(routed, syscall.ENETUNREACH) {
		return err
	}
	return &probe.Error{Err: err}
}
