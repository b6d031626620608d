package guest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/internal/rawconn"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/handlers/wasm/internal/echo"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func netFuncs() map[string]hostFunc {
	return map[string]hostFunc{
		"dial":     i32(netDial),
		"read":     i32(netRead),
		"write":    i32(netWrite),
		"close":    i32(netClose),
		"starttls": i32(netStartTLS),
		"info":     i32(netInfo),
		"poll":     i32(netPoll),
	}
}

const maxURL = 2 << 10

func netDial(c *Call, mem api.Memory, a args) int32 {
	if c.inInitialize || c.offline {
		return c.fail(abi.EPERM, "the network can be reached from probe only")
	}
	if uint32(a[1]) > maxURL {
		return c.fail(abi.EINVAL, "dial: a URL of %d bytes; at most %d are allowed", uint32(a[1]), maxURL)
	}
	url, ok := a.span(mem, 0)
	if !ok {
		return c.badPointer()
	}
	start := c.host.Clock.Now()
	var (
		conn *conn
		err  error
	)
	rawURL := string(url)
	c.idle(waiting{call: "dial", where: c.place(rawURL), stage: stageLookup}, func(ctx context.Context) { conn, err = c.dial(ctx, rawURL, a.i32(2)) })
	c.clearFault()
	if err != nil {
		return c.dialError("dial", rawURL, start, err)
	}
	handle := c.net.add(c.ctx, conn)
	c.Trace(probe.TraceEvent{Type: probe.TraceCall, Name: "dial", Detail: conn.RemoteAddr().String(), Duration: c.host.since(start)})
	return handle
}

// place returns rawURL for messages, without its options. If it has no address, place adds the
// target's.
func (c *Call) place(rawURL string) string {
	rawURL, _, _ = strings.Cut(rawURL, "?")
	scheme, address, _ := strings.Cut(rawURL, "://")
	switch t := c.req.Target; {
	case address != "" || t == probe.Target{}:
		return rawURL
	case t.Unix != "":
		return "unix://" + t.Unix
	default:
		return cmp.Or(scheme, "tcp") + "://" + net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
}

// egress returns the policy for dials with a capability in this call.
func (c *Call) egress(capability string) *egress.Policy {
	return &egress.Policy{
		Network: &c.host.Network, Permissions: c.plugin.Permissions, Capability: capability,
		Target: c.req.Target, PodIP: c.req.PodIP, Pod: c.req.Pod, Container: c.req.Container,
		Elsewhere: c.host.Namespaces && netns.From(c.ctx) != nil,
		Guard: func(host string, addr netip.Addr, socket string) error {
			return netns.Check(c.ctx, netns.To{Host: host, Addr: addr, Socket: socket})
		},
		OwnName: func(host string) bool { return netns.MayBeLoopback(c.ctx, host) },
	}
}

// dial connects to rawURL if the grants allow it.
func (c *Call) dial(ctx context.Context, rawURL string, timeoutMs int32) (*conn, error) {
	if err := c.countDial(); err != nil {
		return nil, err
	}
	if timeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = c.host.Clock.WithTimeout(ctx, time.Duration(timeoutMs)*time.Millisecond)
		defer cancel()
	}
	start := c.host.Clock.Now()
	to, err := c.egress(plugin.CapabilityNet).Resolve(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	options, named, err := dialOptions(to)
	if err != nil {
		return nil, err
	}
	route, err := egress.NewRoute(named)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if to.Addrs, err = route.Choose(to); err != nil {
		return nil, fmt.Errorf("dial %s: %w", to.Network, err)
	}
	resolved := c.host.Clock.Now()
	raw, err := c.dialAny(route.Context(ctx), to)
	if err != nil {
		return nil, err
	}
	made := &conn{Conn: raw, raw: raw, network: to.Network, host: to.Host, dns: resolved.Sub(start), connect: c.host.since(resolved)}
	if !to.Secure {
		return made, nil
	}
	secured := false
	defer func() {
		if !secured { // also if Handshake panics
			_ = raw.Close()
		}
	}()
	if err := c.secure(ctx, made, options); err != nil {
		return nil, err
	}
	secured = true
	return made, nil
}

// dialAny tries the addresses in order, each with its share of the remaining time. It returns the last
// error that is not a fault of this host, if there is one. For example, a missing route for IPv6 says
// nothing about a target that refuses over IPv4.
func (c *Call) dialAny(ctx context.Context, to egress.Endpoint) (_ net.Conn, err error) {
	for i, addr := range to.Addrs {
		share := ctx
		if deadline, ok := ctx.Deadline(); ok && i < len(to.Addrs)-1 {
			var cancel context.CancelFunc
			left := deadline.Sub(c.host.Clock.Now()) / time.Duration(len(to.Addrs)-i)
			share, cancel = c.host.Clock.WithTimeout(ctx, left)
			defer cancel()
		}
		c.stage(share, stageDial, addr, nil)
		raw, failed := c.host.DialContext(share, to.Network, addr)
		if failed == nil {
			return raw, nil
		}
		failed = rawconn.Unreachable(share, c.host.DialContext, to.Network, addr, failed)
		if err == nil || probe.HostReason(failed) == "" {
			err = failed
		}
	}
	return nil, err
}

// isNamespaceError reports whether err comes from the network namespace of the call.
func isNamespaceError(err error) bool {
	_, ok := errors.AsType[*netns.Error](err)
	return ok
}

// dialFault returns the reason for a Failure after a dial that failed with err.
func dialFault(err error, errno abi.Errno) probe.Reason {
	if _, ok := errors.AsType[*echo.NotPermittedError](err); ok || isNamespaceError(err) {
		return probe.ReasonHostResources
	}
	if reason := probe.HostReason(err); reason != "" {
		return reason
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return probe.ReasonDNS
	}
	if _, ok := errors.AsType[*tlsError](err); ok {
		return probe.ReasonTLS
	}
	switch errno {
	case abi.ECONNREFUSED:
		return probe.ReasonConnectRefused
	case abi.ETIMEDOUT:
		return probe.ReasonConnectTimeout
	default:
		return ""
	}
}

// dialError records and traces that a dial failed, and returns the number of its error.
func (c *Call) dialError(name, rawURL string, start time.Time, err error) int32 {
	errno := errnoOf(err)
	c.dialFault = dialFault(err, errno)
	if c.dialFault.OfHost() && !c.host.Compat.Has(probe.CompatHostTrouble) || isNamespaceError(err) {
		c.trouble = err
	}
	if denied, ok := errors.AsType[*egress.Denied](err); ok && denied.Undecided {
		c.trouble = &probe.Error{Reason: probe.ReasonDenied, Err: err}
	}
	event := probe.TraceEvent{Type: probe.TraceCall, Name: name, Detail: c.errorText(err), Duration: c.host.since(start)}
	if l, ok := errors.AsType[*limit](err); ok && l.which > 0 {
		c.Hit(l.which)
	}
	if c.countDenied(err) {
		event.Type, event.Detail = probe.TraceDenied, err.Error()
		c.debug(err.Error(), "url", rawURL)
	}
	return c.failTraced(event, errno, "%v", err)
}

// countDenied counts err and returns true if it is a denial.
func (c *Call) countDenied(err error) bool {
	_, denied := errors.AsType[*egress.Denied](err)
	if used, ok := errors.AsType[*credentialsError](err); ok {
		denied = used.denied()
	}
	if denied {
		c.plugin.Denied.Add(1)
		c.dialFault = probe.ReasonDenied
	}
	return denied
}

// clearFault clears the fault of an earlier dial, because the last dial decides the reason.
func (c *Call) clearFault() { c.dialFault, c.trouble = "", nil }

// HostTrouble returns the error if a fault of this host or its policy, not of the target, failed the last dial of
// the call. Otherwise it returns nil. A Failure after such an error says nothing about the target.
func (c *Call) HostTrouble() error {
	if c.trouble == nil {
		return nil
	}
	if denied, ok := errors.AsType[*probe.Error](c.trouble); ok && denied.Reason == probe.ReasonDenied {
		return denied
	}
	return &probe.Error{Reason: cmp.Or(probe.HostReason(c.trouble), probe.ReasonHostResources), Err: c.trouble}
}

// errorText returns err for messages. After the end of the call it names the end instead, because the
// host itself closed the connection.
func (c *Call) errorText(err error) string {
	if c.Ended() != nil {
		return "the attempt has ended"
	}
	return err.Error()
}

func (c *Call) traceBytes(name string, n int, err error) {
	if c.req.Trace == nil {
		return
	}
	detail := count(n, "byte")
	if err != nil {
		detail += ": " + c.errorText(err)
	}
	c.Trace(probe.TraceEvent{Type: probe.TraceCall, Name: name, Detail: detail})
}

func (c *Call) failTraced(event probe.TraceEvent, errno abi.Errno, format string, err error) int32 {
	c.Trace(event)
	return c.fail(errno, format, err)
}

// endError is the end of a connection that the peer closed too early, for people.
type endError struct {
	err  error // wraps io.EOF or io.ErrUnexpectedEOF
	when string
}

func (e *endError) Error() string { return "the server closed the connection " + e.when }
func (e *endError) Unwrap() error { return e.err }

// ended returns err, with words in place of EOF: early if nothing was read, and late if a part was. It returns other
// errors, and those of TLS, unchanged.
func ended(err error, early, late string) error {
	_, isTLS := errors.AsType[*tlsError](err)
	switch {
	case isTLS:
		return err
	case errors.Is(err, io.EOF):
		return &endError{err, early}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &endError{err, late}
	default:
		return err
	}
}

// errnoOf returns the number of a network error.
func errnoOf(err error) abi.Errno {
	if e, ok := errors.AsType[abi.Errno](err); ok {
		return e
	}
	if e, ok := errors.AsType[*limit](err); ok {
		return e.errno
	}
	if _, ok := errors.AsType[*egress.Denied](err); ok {
		return abi.EACCES
	}
	if e, ok := errors.AsType[*credentialsError](err); ok {
		return e.errno()
	}
	if e, ok := errors.AsType[*tlsError](err); ok {
		return e.errno()
	}
	if _, ok := errors.AsType[*echo.NotPermittedError](err); ok {
		return abi.EPERM
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return abi.ETIMEDOUT
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return abi.ENOENT
	}
	for _, known := range []struct {
		err   error
		errno abi.Errno
	}{
		{syscall.ECONNREFUSED, abi.ECONNREFUSED},
		{syscall.ECONNRESET, abi.ECONNRESET},
		{syscall.EPIPE, abi.EPIPE},
		{syscall.EMSGSIZE, abi.EMSGSIZE},
		{io.ErrClosedPipe, abi.EPIPE},
		{syscall.EHOSTUNREACH, abi.EHOSTUNREACH},
		{syscall.ENETUNREACH, abi.ENETUNREACH},
		{os.ErrNotExist, abi.ENOENT},
		{os.ErrPermission, abi.EACCES},
		{context.Canceled, abi.ETIMEDOUT},
		{net.ErrClosed, abi.ETIMEDOUT}, // closed at the deadline
	} {
		if errors.Is(err, known.err) {
			return known.errno
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return abi.EIO
	}
	return abi.EINVAL
}

func (c *Call) conn(handle int32) (*conn, int32) {
	if n := c.net.get(handle); n != nil {
		return n, 0
	}
	return nil, c.fail(abi.EBADF, "there is no handle %d", handle)
}

func netRead(c *Call, mem api.Memory, a args) int32 {
	conn, bad := c.conn(a.i32(0))
	if conn == nil {
		return bad
	}
	return c.readFrom(&c.net, conn, plugin.LimitNetRead, mem, a)
}

// readFrom reads from conn, until the guest's timeout or the end of the call. which is the index of the
// limit for the bytes read.
func (c *Call) readFrom(n *network, conn *conn, which int, mem api.Memory, a args) int32 {
	buf, ok := a.span(mem, 1)
	if !ok {
		return c.badPointer()
	}
	limit := c.plugin.Limits.NetRead
	if which == plugin.LimitHTTPBody {
		limit = c.plugin.Limits.HTTPBody
	}
	room := limit - n.read
	if room == 0 {
		c.Hit(which)
		return c.fail(abi.EDQUOT, "more than %d bytes read in one run", limit)
	}
	buf = buf[:min(len(buf), room)]
	if timeoutMs := a.i32(3); timeoutMs != abi.NonBlocking && len(buf) > 0 && conn.readsAlone(c.host.Clock) {
		got, done, err := conn.readAtOnce(buf)
		if !done {
			c.idle(waiting{call: "read", conn: conn}, func(context.Context) { got, err = conn.readWithin(buf, timeoutMs) })
		}
		c.noteRefusal(conn, err)
		return c.deliver(n, buf, got, err)
	}
	c.await(n, waiting{call: "read", conn: conn}, a.i32(3), func() bool { return conn.ready(n) })
	got, err := conn.readBuffered(buf)
	c.noteRefusal(conn, err)
	return c.deliver(n, buf, got, err)
}

// noteRefusal records that err, of a read or write, says that no socket of the peer receives datagrams. A dial of
// UDP cannot know it.
func (c *Call) noteRefusal(conn *conn, err error) {
	if conn.network == "udp" && err != nil && errnoOf(err) == abi.ECONNREFUSED {
		c.dialFault = probe.ReasonConnectRefused
	}
}

// deliver counts and returns the result of a read of n bytes into buf.
func (c *Call) deliver(from *network, buf []byte, n int, err error) int32 {
	if n > 0 || err != nil {
		c.traceBytes("read", n, err)
	}
	switch {
	case n > 0:
		from.read += n
		return int32(n)
	case err == io.EOF:
		return 0
	case err != nil:
		return c.fail(errnoOf(err), "%v", err)
	case len(buf) == 0:
		return abi.EINVAL.Code() // 0 would mean the end
	case c.ctx.Err() != nil:
		return c.fail(abi.ETIMEDOUT, "read: timed out")
	}
	return abi.EAGAIN.Code()
}

// await waits until ready returns true, the guest's timeout passes or the call ends.
func (c *Call) await(n *network, w waiting, timeoutMs int32, ready func() bool) {
	if ready() || timeoutMs == abi.NonBlocking {
		return
	}
	left := time.Duration(timeoutMs) * time.Millisecond
	start := c.host.Clock.Now()
	c.idle(w, func(ctx context.Context) {
		for !ready() {
			rest := left
			if left > 0 {
				rest = max(0, left-c.host.since(start))
			}
			if !c.host.Clock.Wait(ctx, n.wake, rest) {
				return
			}
		}
	})
}

func netWrite(c *Call, mem api.Memory, a args) int32 {
	conn, bad := c.conn(a.i32(0))
	if conn == nil {
		return bad
	}
	data, ok := a.span(mem, 1)
	if !ok {
		return c.badPointer()
	}
	room := c.plugin.Limits.NetWrite - c.net.written
	empty := len(data) == 0 && conn.network == "udp" // an empty datagram counts as one byte
	if len(data) > room || empty && room == 0 {
		c.Hit(plugin.LimitNetWrite)
	}
	if room == 0 && (len(data) > 0 || empty) {
		return c.fail(abi.EDQUOT, "more than %d bytes written in one run", c.net.written)
	}
	if len(data) > room && conn.network == "udp" {
		return c.fail(abi.EMSGSIZE, "a datagram of %d bytes; %d are left of this run", len(data), room)
	}
	data = data[:min(len(data), room)]
	n, done, err := conn.writeAtOnce(data)
	if !done {
		unfinished := fmt.Sprintf("a write of %s is not finished", count(len(data), "byte"))
		c.idle(waiting{call: "write", conn: conn, stage: unfinished}, func(context.Context) {
			var more int
			more, err = conn.write(c.host.Clock, data[n:], a.i32(3))
			n += more
		})
	}
	c.net.written += n
	conn.sent.Add(int64(n))
	c.noteRefusal(conn, err)
	if empty && err == nil {
		c.net.written++
	}
	c.traceBytes("write", n, err)
	switch {
	case n > 0 || err == nil:
		return int32(n)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.ctx.Err() == nil:
		return abi.EAGAIN.Code()
	default:
		return c.fail(errnoOf(err), "%v", err)
	}
}

func netClose(c *Call, _ api.Memory, a args) int32 {
	conn, bad := c.conn(a.i32(0))
	if conn == nil {
		return bad
	}
	if _, atOnce := conn.Conn.(*rawconn.Conn); atOnce && conn.drained == nil {
		c.net.close(a.i32(0))
	} else {
		c.idle(waiting{call: "close", conn: conn}, func(context.Context) { c.net.close(a.i32(0)) })
	}
	return 0
}

func netInfo(c *Call, mem api.Memory, a args) int32 {
	conn, bad := c.conn(a.i32(0))
	if conn == nil {
		return bad
	}
	return c.put(mem, a, 1, conn.info())
}

const maxPoll = 64 // handles

// netPoll waits until one of the handles has data, end of file or an error to read, and returns its
// index.
func netPoll(c *Call, mem api.Memory, a args) int32 {
	n := uint32(a[1])
	if n > maxPoll {
		return c.fail(abi.EINVAL, "poll: more than %d handles", maxPoll)
	}
	raw, ok := mem.Read(uint32(a[0]), n*4)
	if !ok {
		return c.badPointer()
	}
	conns := make([]*conn, n)
	for i := range conns {
		var bad int32
		if conns[i], bad = c.conn(int32(binary.LittleEndian.Uint32(raw[i*4:]))); bad != 0 {
			return bad
		}
	}
	index := -1
	c.await(&c.net, polled(conns), a.i32(2), func() bool {
		for i, conn := range conns {
			if conn.ready(&c.net) && index < 0 {
				index = i
			}
		}
		return index >= 0
	})
	switch {
	case index >= 0:
		return int32(index)
	case c.ctx.Err() != nil:
		return c.fail(abi.ETIMEDOUT, "poll: timed out")
	}
	return abi.EAGAIN.Code()
}
