package rawconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/daeace23/prober/probe"
)

// Unreachable returns err, the error of a dial over TCP, with its true cause. [syscall.ENETUNREACH] may be the
// answer of a router on the way: then it is a [*probe.Error] without a reason, and no fault of this host. It is
// one if the host has no route either for a socket of UDP, which sends nothing to connect.
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
