//go:build !wasip1

package sdk

import (
	"context"
	"errors"
	"fmt"
)

// Echo sends an ICMP echo request and waits for its reply. It returns an error if there is none. It needs
// the capability "icmp". A native program has no sockets for ICMP: only [Host].Echo replies there.
func Echo(ctx context.Context, q EchoRequest) (EchoReply, error) {
	h := hostOf(ctx)
	if h.Echo == nil {
		return EchoReply{}, fmt.Errorf("icmp: a native program sends no echo requests: %w", errors.ErrUnsupported)
	}
	if q.Host == "" {
		q.Host = h.Target.Host
	}
	reply, err := h.Echo(ctx, q)
	if err != nil {
		err = fmt.Errorf("icmp %s: %w", q.Host, err)
	}
	return reply, err
}
