package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/daeace23/prober/probe"
)

// Guard returns why no connection may be made to an address from the program's own namespace; nil if one
// may. It is called for each address right before the connection, also for those of names. It is safe for
// concurrent use.
type Guard func(addr netip.Addr) error

// guarded is a context with a guard, see inContext.
type guarded struct {
	context.Context
	guard Guard
}

// guardKey is the key of the guard in a context.
type guardKey struct{}

// WithGuard returns ctx, which has no namespace, with a guard for the connections that the built-in handlers
// make with it. A guard does not apply to unix sockets. The handlers of handlers/wasm have rules of their own.
func WithGuard(ctx context.Context, guard Guard) context.Context { return &guarded{ctx, guard} }

// Inherit returns ctx with the namespace or the guard of another context, for a library that dials with
// contexts of its own.
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

// errNoAddress is the error of a guarded connection without a host: package net would make it to the
// program's own host.
var errNoAddress = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("the target has no address yet")}

// CheckAddress returns the error of the guard of ctx for an address; nil without a guard.
func CheckAddress(ctx context.Context, addr netip.Addr) error {
	guard, _ := ctx.Value(guardKey{}).(Guard)
	if guard == nil {
		return nil
	}
	return denied(guard(addr))
}

// CheckDial returns an error if the guard of ctx refuses host:port, or if there is no host. Names are not
// looked up: see [CheckResolved].
func CheckDial(ctx context.Context, address string) error {
	if guard, _ := ctx.Value(guardKey{}).(Guard); guard == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return errNoAddress
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return CheckAddress(ctx, addr)
}

// CheckResolved is CheckDial for the address that a [net.Dialer] is about to connect to.
func CheckResolved(ctx context.Context, address string) error {
	if guard, _ := ctx.Value(guardKey{}).(Guard); guard == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied(fmt.Errorf("%q is no address", address))
	}
	return CheckAddress(ctx, at.Addr())
}

func denied(err error) error {
	if err == nil {
		return nil
	}
	return &probe.Error{Reason: probe.ReasonDenied, Err: err}
}
