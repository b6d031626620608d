//go:build !linux && !darwin

package echo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/daeace23/prober/handlers/netns"
)

// listenDatagram returns an error, because this system has raw sockets only.
func listenDatagram(*netns.Namespace, bool, netip.Addr) (net.PacketConn, error) {
	return nil, fmt.Errorf("datagrams of ICMP on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// setFragmentation returns an error if fragmentation must be disabled, which is not implemented here.
func setFragmentation(_ int, _, allowed bool) error {
	if allowed {
		return nil
	}
	return fmt.Errorf("dontFragment on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func receiveErrors(int, bool) error { return nil }

func receivedError(int) *RefusedError { return nil }
