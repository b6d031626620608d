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

// listenDatagram returns an error: this system has raw sockets only.
func listenDatagram(*netns.Namespace, bool, netip.Addr) (net.PacketConn, error) {
	return nil, fmt.Errorf("datagrams of ICMP on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// fragment returns an error unless packets may be sent in pieces: the option is not known here.
func fragment(_ int, _, pieces bool) error {
	if pieces {
		return nil
	}
	return fmt.Errorf("dontFragment on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func receiveErrors(int, bool) error { return nil }

func receivedError(int) *RefusedError { return nil }
