package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

//go:wasmimport prober_v1_net dial
func hostDial(url unsafe.Pointer, n uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_net read
func hostRead(handle int32, buf unsafe.Pointer, size uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_net write
func hostWrite(handle int32, ptr unsafe.Pointer, n uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_net close
func hostClose(handle int32) int32

//go:wasmimport prober_v1_net starttls
func hostStartTLS(handle int32, opts unsafe.Pointer, n uint32) int32

//go:wasmimport prober_v1_net info
func hostInfo(handle int32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_net poll
func hostPoll(handles unsafe.Pointer, n uint32, timeoutMs int32) int32

// dial connects to addr over a network without an IP family.
func (d *Dialer) dial(ctx context.Context, network, family, addr string) (net.Conn, error) {
	if err := ended(ctx); err != nil {
		return nil, opError("dial", network, addr, err)
	}
	switch network {
	case "tcp", "udp", "tls", "unix":
	default:
		return nil, opError("dial", network, addr, net.UnknownNetworkError(network))
	}
	c := &conn{network: network, addr: addr}
	if err := c.dial(ctx, network+"://"+addr+d.query(network, family)); err != nil {
		return nil, opError("dial", network, addr, err)
	}
	return c, nil
}

// query returns the options of d as the query of a URL, "" for none.
func (d *Dialer) query(network, family string) string {
	if network == "unix" {
		return ""
	}
	q := append([]byte{'?'}, appendOption(appendOption(nil, "ipFamily", family), "sourceAddress", d.SourceAddress)...)
	if network == "tls" {
		o := d.TLS.abi()
		for _, protocol := range o.ALPN {
			q = appendOption(q, "alpn", protocol)
		}
		q = appendOption(appendOption(q, "serverName", o.ServerName), "verify", o.Verify)
		q = appendOption(q, "credentials", o.Credentials)
		q = appendOption(appendOption(q, "minVersion", o.MinVersion), "maxVersion", o.MaxVersion)
	}
	if len(q) == 1 {
		return ""
	}
	return string(q[:len(q)-1])
}

// appendOption appends a parameter of a query and "&" to q, unless value is empty.
func appendOption(q []byte, name, value string) []byte {
	if value == "" {
		return q
	}
	q = append(append(q, name...), '=')
	for i := range len(value) {
		const digits = "0123456789ABCDEF"
		switch c := value[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			q = append(q, c)
		default:
			q = append(q, '%', digits[c>>4], digits[c&15])
		}
	}
	return append(q, '&')
}

// dialTarget connects to the target of r. Without a URL, the host dials the target of the current request.
func dialTarget(ctx context.Context, r *Request) (net.Conn, error) {
	network := "tcp"
	if r.Target.Unix != "" {
		network = "unix"
	}
	if last.call == nil || r != &last.call.Request || r.Target != last.copy.Target {
		return Dial(ctx, network, r.Addr())
	}
	c := &conn{network: network, target: r.Target}
	err := ended(ctx)
	if err == nil {
		err = c.dial(ctx, "")
	}
	if err != nil {
		return nil, c.opError("dial", err)
	}
	return c, nil
}

// dial connects to a URL.
func (c *conn) dial(ctx context.Context, url string) error {
	ptr, n := pointer(url)
	handle := hostDial(ptr, n, timeoutOf(ctx))
	if handle < 0 {
		return hostError(handle)
	}
	c.handle, c.attempt = handle, attempts
	activity++
	return nil
}

// ended returns ctx.Err before a host call. It does not ask the host whether the attempt has ended, because
// the host then ends the guest in the call.
func ended(ctx context.Context) error {
	if c, ok := ctx.(*callContext); ok && c.real == nil && !c.ended {
		return nil
	}
	return ctx.Err()
}

// timeoutOf returns the timeout of a host call under ctx. The host itself enforces the deadline of the
// attempt.
func timeoutOf(ctx context.Context) int32 {
	if _, ok := ctx.(*callContext); ok {
		return abi.UntilDeadline
	}
	t, ok := ctx.Deadline()
	if !ok {
		return abi.UntilDeadline
	}
	return max(1, int32(min(time.Until(t).Milliseconds()+1, 1<<30)))
}

// StartTLS starts TLS on a connection of [Dial]: by the host in a guest, with crypto/tls in a native
// program. The returned connection replaces from.
func StartTLS(ctx context.Context, from net.Conn, o TLSOptions) (net.Conn, error) {
	c, ok := from.(*conn)
	if !ok {
		return nil, fmt.Errorf("starttls: %w", errNotOurs)
	}
	if err := cmp.Or(ended(ctx), c.usable(time.Time{})); err != nil {
		return nil, c.opError("starttls", err)
	}
	doc, n := pointer(abi.Append(nil, o.abi()))
	if code := hostStartTLS(c.handle, doc, n); code < 0 {
		return nil, c.opError("starttls", hostError(code))
	}
	activity++
	return c, nil
}

// Inspect describes a connection of [Dial]: its addresses, the durations of dialing, and its TLS. A native
// program does not know the durations.
func Inspect(from net.Conn) (ConnInfo, error) {
	c, ok := from.(*conn)
	if !ok {
		return ConnInfo{}, errNotOurs
	}
	doc, err := c.document()
	if err != nil {
		return ConnInfo{}, err
	}
	return abi.Decode[abi.ConnInfo](doc)
}

// callError is the error of a host call. It matches the syscall.Errno of the same number, and thereby
// errors such as fs.ErrPermission.
type callError struct {
	errno abi.Errno
	text  string
}

func (e *callError) Error() string   { return e.text }
func (e *callError) Unwrap() error   { return syscall.Errno(e.errno) }
func (e *callError) Timeout() bool   { return e.errno.Timeout() }
func (e *callError) Temporary() bool { return e.errno == abi.EAGAIN }

// Is makes a timeout match os.ErrDeadlineExceeded, as in a native program.
func (e *callError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded && e.errno == abi.ETIMEDOUT
}

func hostError(code int32) error {
	e := &callError{errno: abi.Errno(-code)}
	text, err := pull(256, hostLastError)
	e.text = string(text)
	if err != nil || e.text == "" {
		e.text = e.errno.Error()
	}
	return e
}

func opError(op, network, addr string, err error) error {
	if e, ok := errors.AsType[*callError](err); ok && (strings.HasPrefix(e.text, op+" ") || strings.HasPrefix(e.text, op+": ")) {
		return err // it already contains the operation and the address
	}
	return &net.OpError{Op: op, Net: network, Addr: address{network, addr}, Err: err}
}

// opError is the function [opError] for c.
func (c *conn) opError(op string, err error) error { return opError(op, c.network, c.address(), err) }

// address returns the dialled address.
func (c *conn) address() string {
	if c.addr != "" {
		return c.addr
	}
	return (&Request{Target: c.target}).Addr()
}

type address struct{ network, addr string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.addr }

// conn is a connection of the host. A guest has one thread, so conn needs no locks, but a host call that
// blocks stops every goroutine. So reads do not block in the host while another goroutine could run:
// http.Transport begins to read before it writes.
type conn struct {
	handle        int32
	attempt       uint64 // the attempt that the handle belongs to
	network, addr string
	target        probe.Target // target of the request, used if addr is empty
	readDeadline  time.Time
	writeDeadline time.Time
	closed        bool
}

var _ net.Conn = (*conn)(nil)

var (
	errNotOurs = errors.New("not a connection of sdk.Dial")

	// activity counts the events on all connections.
	activity uint64
	// readers has the handles of connections that goroutines are reading.
	readers []int32
)

// The longest waits in the host, in milliseconds, while other goroutines may run. They limit how late a
// timer of the guest may be. Each wait for data on any connection is a quarter longer than the previous
// one, so a server that does not answer costs little CPU time.
const (
	maxPark = 10
	maxRest = 100
)

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	park := int32(1)
	for runtime.NumGoroutine() == 1 { // only a timer could run meanwhile
		park = until(c.readDeadline, park)
		if n, err := c.read(p, park); n != 0 || err != nil {
			return n, err
		}
		runtime.Gosched() // runs timers, which may start goroutines
		park = nextPark(park)
	}
	return c.readAmong(p, park)
}

// readAmong is the part of Read for the case that other goroutines may run.
func (c *conn) readAmong(p []byte, park int32) (int, error) {
	waiting := false
	defer func() {
		if i := slices.Index(readers, c.handle); waiting && c.attempt == attempts && i >= 0 { // otherwise the handle belongs to another connection
			readers = slices.Delete(readers, i, i+1)
		}
	}()
	for {
		if n, err := c.read(p, abi.NonBlocking); n != 0 || err != nil {
			return n, err
		}
		if !waiting {
			waiting = true
			readers = append(readers, c.handle)
		}
		park = yield(park, c.readDeadline)
	}
}

// read reads available data from the host, waiting for up to timeoutMs. It returns 0 and no error if there
// was none.
func (c *conn) read(p []byte, timeoutMs int32) (int, error) {
	if err := c.usable(c.readDeadline); err != nil {
		return 0, c.opError("read", err)
	}
	switch n := hostRead(c.handle, unsafe.Pointer(&p[0]), uint32(len(p)), timeoutMs); {
	case n > 0:
		activity++
		return int(n), nil
	case n == 0:
		return 0, io.EOF
	case n == abi.EAGAIN.Code():
		return 0, nil
	default:
		return 0, c.opError("read", hostError(n))
	}
}

// yield lets the other goroutines run. If they have done nothing on a connection, it waits in the host
// until a reader has data, for up to park milliseconds. It returns the next value of park.
func yield(park int32, deadline time.Time) int32 {
	before := activity
	runtime.Gosched()
	if activity != before || len(readers) == 0 {
		return 1
	}
	park = until(deadline, park)
	hostPoll(unsafe.Pointer(&readers[0]), uint32(len(readers)), park)
	return nextPark(park)
}

// until returns the milliseconds until deadline, but at most park.
func until(deadline time.Time, park int32) int32 {
	if deadline.IsZero() {
		return park
	}
	return min(park, max(1, int32(min(time.Until(deadline).Milliseconds(), maxRest))))
}

// nextPark returns the wait that follows a wait of park milliseconds.
func nextPark(park int32) int32 { return min(park+max(1, park/4), maxRest) }

func (c *conn) usable(deadline time.Time) error {
	if c.closed || c.attempt != attempts {
		return net.ErrClosed
	}
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if err := c.usable(c.writeDeadline); err != nil {
			return done, c.opError("write", err)
		}
		n := hostWrite(c.handle, unsafe.Pointer(&p[done]), uint32(len(p)-done), maxPark)
		switch {
		case n > 0:
			activity++
			done += int(n)
		case n == abi.EAGAIN.Code():
			runtime.Gosched()
		default:
			return done, c.opError("write", hostError(n))
		}
	}
	return done, nil
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	if err := c.usable(time.Time{}); err != nil {
		return c.opError("close", err)
	}
	c.closed = true
	activity++
	hostClose(c.handle)
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return address{c.network, c.info("local")} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return address{c.network, c.info("remote")} }

func (c *conn) info(path string) string {
	doc, err := c.document()
	if err != nil {
		return c.address()
	}
	value, _ := abi.Lookup(doc, path)
	return abi.Text(value)
}

func (c *conn) document() ([]byte, error) {
	if err := c.usable(time.Time{}); err != nil {
		return nil, c.opError("info", err)
	}
	return pull(512, func(buf unsafe.Pointer, size uint32) int32 { return hostInfo(c.handle, buf, size) })
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	c.readDeadline, c.writeDeadline = t, t
	activity++
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readDeadline = t
	activity++
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline = t
	return nil
}

// abi returns o as a document for the host.
func (o TLSOptions) abi() *abi.TLSOptions {
	out := &abi.TLSOptions{
		ServerName: o.ServerName, ALPN: o.ALPN, CA: o.CA, Credentials: o.Credentials, MinVersion: o.MinVersion, MaxVersion: o.MaxVersion,
	}
	if o.InsecureSkipVerify {
		out.Verify = abi.VerifyNone
	}
	return out
}
