package grpcprobe

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// bare makes the attempt with HTTP/2 frames of its own, at a fraction of the cost of a grpc-go connection. It
// supports plain answers only. done is false if grpc-go must make the attempt because the dial failed, or
// continue it on the same connection because the server sent something else.
func (a *attempt) bare(ctx context.Context) (out probe.Outcome, done bool, err error) {
	address := a.at.Address()
	r := request{secure: a.secure, authority: authorityOf(address), userAgent: a.handler.userAgent, service: a.service}
	if !r.isPlain() {
		return out, false, nil
	}
	conn, socket, err := a.dialBare(ctx, address)
	if end := ended(ctx); end != nil {
		if err == nil {
			_ = conn.Close()
		}
		out, err = a.notConnected(ctx, end)
		return out, true, err
	}
	if isDenied(err) {
		out, err = a.notConnected(ctx, err)
		return out, true, err
	}
	if err != nil || !socket {
		a.first = &dialed{conn, err}
		if err == nil {
			a.hold(conn)
		}
		return out, false, nil
	}
	x := newExchange(&a.progress)
	defer x.release()
	err = a.check(ctx, conn, x, &r)
	switch {
	case a.first != nil:
		return out, false, nil
	case err == nil && x.failure == nil:
		a.progress.Done()
		out = serving(x.response.GetStatus())
	case err == nil:
		a.progress.Done()
		out, err = a.rpcError(ctx, x.failure)
	case x.Settled:
		out, err = a.rpcError(ctx, status.FromContextError(ended(ctx)).Err())
	default:
		out, err = a.notConnected(ctx, ended(ctx))
	}
	return out, true, err
}

// dialBare makes the connection. address is the address of a.at. socket reports whether it is a socket of the
// kernel, which buffers the preface before the server reads it. With other connections, both ends might wait
// for each other to read.
func (a *attempt) dialBare(ctx context.Context, address string) (conn net.Conn, socket bool, err error) {
	nw := "tcp"
	if a.at.Unix != "" {
		nw, address = a.at.Dialed()
	}
	next := network.StepHTTP2
	if a.secure {
		next = network.StepTLS
	}
	conn, err = a.progress.Dial(a.progress.HooksAt(ctx, a.at), func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := a.handler.connector.Connect(ctx, a.at)
		socket = isSocket(conn)
		if own, ok := conn.(*network.Conn); ok {
			_ = own.SetNoDelay(true) // because an exchange writes several times
		}
		return conn, err
	}, nw, address, next)
	if err == nil || ended(ctx) == nil {
		a.record(err)
	}
	return conn, socket, err
}

// isSocket reports whether conn is a socket of the kernel.
func isSocket(conn net.Conn) bool {
	switch conn.(type) {
	case *network.Conn, syscall.Conn:
		return true
	default:
		return false
	}
}

// check runs the exchange x over conn, and closes conn. If it returns an error before ctx ends, it does not
// close conn, but sets it as the result of grpc-go's first dial.
func (a *attempt) check(ctx context.Context, conn net.Conn, x *exchange, r *request) error {
	stop := network.Until(ctx, conn)
	h := handshake{conn: conn}
	if a.secure {
		h.conn, h.info, h.err = a.handler.credentials.ClientHandshake(ctx, r.authority, conn)
	}
	err := h.err
	if err == nil {
		r.deadline, _ = ctx.Deadline()
		err = x.run(h.conn, r)
	}
	if stop() && err != nil && ended(ctx) == nil {
		if h.err == nil && !x.Settled {
			a.unready = unreadyText(err)
		}
		a.first = &dialed{conn: x.resume(conn, h, err)}
		a.hold(conn)
		return err
	}
	if err != nil {
		raw := conn
		defer time.AfterFunc(closeTimeout, func() { _ = raw.Close() }).Stop()
	}
	if h.err == nil {
		conn = h.conn
	}
	if err != nil {
		x.cancel(conn)
	}
	_ = conn.Close()
	return err
}

// unreadyText describes why a server did not send its settings. err is the error of the exchange.
func unreadyText(err error) string {
	if errors.Is(err, http2.ErrOther) {
		return "what it has sent is something else"
	}
	return network.Reason(err)
}

// ended returns the error of ctx. After the deadline it returns an error even if the timer of ctx has not
// fired yet.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// authorityOf returns the authority that grpc-go derives from an address.
func authorityOf(address string) string {
	if strings.HasPrefix(address, ":") {
		return "localhost" + address
	}
	return address
}

// isPlain reports whether grpc-go would send the texts of r unchanged.
func (r *request) isPlain() bool {
	return len(r.authority) <= maxText && len(r.userAgent) <= maxText && len(r.service) <= maxText &&
		!strings.ContainsFunc(r.authority, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:[]", c)
		}) && http2.IsPrintable(r.userAgent) && utf8.ValidString(r.service)
}
