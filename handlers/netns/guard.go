package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/daeace23/prober/probe"
)

// To is the destination of a connection that is about to be made: a host, an address or a socket.
type To struct {
	Host   string     // an address or a name; set before the name is looked up
	Addr   netip.Addr // set right before the connection, also if a name was resolved to it
	Port   uint16     // port of Addr; 0 if unknown
	Socket string     // path of a unix socket
}

// Guard returns an error if an attempt must not connect to a target. It must be safe for concurrent use.
// See RATIONALE.md, "Why is the policy asked again when a probe connects?"
type Guard func(to To) error

// guarded is a context with a guard, see inContext.
type guarded struct {
	context.Context
	guard Guard
}

// guardKey is the key of the guard in a context.
type guardKey struct{}

// WithGuard returns a context with a guard for connections to targets. If a namespace is added to the result
// with [With], the guard does not see addresses. Connections that an operator's grant allows to a plugin do
// not need the guard's permission. If ctx already has a guard, that guard is asked first.
func WithGuard(ctx context.Context, guard Guard) context.Context {
	if before, _ := ctx.Value(guardKey{}).(Guard); before != nil {
		own := guard
		guard = func(to To) error {
			if err := before(to); err != nil {
				return err
			}
			return own(to)
		}
	}
	return &guarded{ctx, guard}
}

// ownNamesKey is the key of the names in the context, see WithOwnNames.
type ownNamesKey struct{}

// WithOwnNames returns a context whose attempts may reach a loopback address by the name of their target, if
// named returns true for it. It is for targets that the operator of the program names, never for targets of other
// people. named must be safe for concurrent use.
func WithOwnNames(ctx context.Context, named func(host string) bool) context.Context {
	return context.WithValue(ctx, ownNamesKey{}, named)
}

// MayBeLoopback reports whether host, the name of a target, may lead to a loopback address. It is false for a
// context without [WithOwnNames].
func MayBeLoopback(ctx context.Context, host string) bool {
	named, _ := ctx.Value(ownNamesKey{}).(func(host string) bool)
	return named != nil && named(host)
}

// Inherit returns ctx with the namespace or the guard of the context from. It is for libraries that dial with
// their own contexts.
func Inherit(ctx, from context.Context) context.Context {
	if guard, _ := from.Value(guardKey{}).(Guard); guard != nil {
		ctx = WithGuard(ctx, guard)
	}
	return With(ctx, From(from))
}

// Value implements [context.Context].
func (c *guarded) Value(k any) any {
	if k == (guardKey{}) {
		return c.guard
	}
	return c.Context.Value(k)
}

// AfterFunc calls f in a goroutine when c ends. The context package calls it.
func (c *guarded) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }

// errNoAddress is the error of a guarded connection without a host. Package net would connect to the
// program's own host.
var errNoAddress = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("the target has no address yet")}

// Check returns the error of the guard of ctx, or nil without a guard.
func Check(ctx context.Context, to To) error {
	guard, _ := ctx.Value(guardKey{}).(Guard)
	if guard == nil || to.Addr.IsValid() && From(ctx) != nil {
		return nil
	}
	return denied(guard(to))
}

// CheckDial returns an error if the guard of ctx refuses an address of package net: host:port, or the
// path of a unix socket. An address without a host is refused. Names are not looked up, see
// [CheckResolved].
func CheckDial(ctx context.Context, network, address string) error {
	if guard, _ := ctx.Value(guardKey{}).(Guard); guard == nil {
		return nil
	}
	if network == "unix" {
		return Check(ctx, To{Socket: address})
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil && address != "" {
		return denied(fmt.Errorf("%.80q is no address", address))
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		port = 0 // the name of a service; CheckResolved gets its number
	}
	return CheckHost(ctx, host, int(port))
}

// CheckHost is like [CheckDial] for a host, which may be an address. A port of 0 means unknown.
func CheckHost(ctx context.Context, host string, port int) error {
	guard, _ := ctx.Value(guardKey{}).(Guard)
	switch {
	case guard == nil:
		return nil
	case host == "":
		return errNoAddress
	}
	if err := Check(ctx, To{Host: host}); err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return Check(ctx, To{Addr: addr, Port: uint16(port)})
	}
	return nil
}

// CheckResolved is like [CheckDial] for the address that a [net.Dialer] is about to connect to.
func CheckResolved(ctx context.Context, address string) error {
	if guard, _ := ctx.Value(guardKey{}).(Guard); guard == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied(fmt.Errorf("%q is no address", address))
	}
	return Check(ctx, To{Addr: at.Addr(), Port: at.Port()})
}

func denied(err error) error {
	if err == nil {
		return nil
	}
	return &probe.Error{Reason: probe.ReasonDenied, Err: err}
}
