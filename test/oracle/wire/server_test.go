package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// script has the steps of a server for one connection:
//
//   - a string is written, with {port} and {other} replaced by the ports of the server and its second server;
//   - a [time.Duration] is a pause;
//   - an await waits until enough was received;
//   - an act is any other action.
//
// After the last step, the server closes its direction, and reads until the client closes the other one.
type script []any

// await reports whether enough bytes were received to continue.
type await func(got []byte) bool

// request waits for an HTTP/1 request without a body, or the beginning of a TLS handshake.
var request await = func(got []byte) bool {
	return bytes.Contains(got, []byte("\r\n\r\n")) || len(got) > 0 && got[0] == 0x16
}

// act is an action on a connection. It returns an error to end the script.
type act func(c *served) error

var (
	// hang waits until the client closes the connection. The probe gets a short timeout.
	hang act = func(c *served) error { <-c.closed; return io.EOF }
	// reset closes the connection with a reset, instead of an orderly end.
	reset act = func(c *served) error {
		_ = c.raw.SetLinger(0)
		_ = c.raw.Close()
		return net.ErrClosed
	}
	// abandon closes both directions at once.
	abandon act = func(c *served) error { _ = c.raw.Close(); return net.ErrClosed }
	// finish closes the server's direction and continues with the script.
	finish act = func(c *served) error { return c.raw.CloseWrite() }
)

// endless writes text until the connection is broken.
func endless(text string) act {
	return func(c *served) error {
		chunk := []byte(strings.Repeat(text, max(1, (16<<10)/len(text))))
		for {
			if _, err := c.conn.Write(chunk); err != nil {
				return err
			}
		}
	}
}

// slowly writes text byte by byte.
func slowly(text string) act {
	return func(c *served) error {
		for _, b := range []byte(text) {
			if _, err := c.conn.Write([]byte{b}); err != nil {
				return err
			}
			time.Sleep(time.Millisecond / 2)
		}
		return nil
	}
}

// server describes a server. If scripts is nil, there is no listener.
type server struct {
	address string      // listen address; 127.0.0.1 if empty
	tls     *tls.Config // nil: no TLS
	scripts []script    // for the first connection, the second, and so on; the last one repeats
	other   []script    // for a second server without TLS, if not nil
	frames  bool        // describe the received bytes as HTTP/2 frames
	cut     int         // number of bytes that the server writes before cutBy; 0: no limit
	cutBy   act
	full    bool // the backlog is full, so that no connection is accepted
}

// answers returns a server that waits for a request, and then follows the script.
func answers(steps ...any) server {
	return server{scripts: []script{append(script{request}, steps...)}}
}

// begins returns a server that follows the script without waiting.
func begins(steps ...any) server { return server{scripts: []script{steps}} }

// each returns a server that answers the request on connection n with text n.
func each(texts ...string) server {
	var s server
	for _, text := range texts {
		s.scripts = append(s.scripts, script{request, text})
	}
	return s
}

// secured returns s with TLS.
func (s server) secured(c *tls.Config) server {
	s.tls = c
	return s
}

func (s server) hangs() bool {
	if s.cutBy != nil && isHang(s.cutBy) {
		return true
	}
	for _, scripts := range [][]script{s.scripts, s.other} {
		for _, script := range scripts {
			for _, step := range script {
				if a, ok := step.(act); ok && isHang(a) {
					return true
				}
			}
		}
	}
	return false
}

func isHang(a act) bool { return fmt.Sprintf("%p", a) == fmt.Sprintf("%p", hang) }

// running is a started server.
type running struct {
	server
	listener  *net.TCPListener
	port      int
	otherPort int
	fillers   []io.Closer // the listener and connections that fill a backlog
	forgets   bool        // does not record its connections

	wg      sync.WaitGroup
	drained chan struct{} // closed when the last connection is accepted
	mu      sync.Mutex
	conns   []*served
	last    string // client address of the connection of drain
}

// served is one connection of a server.
type served struct {
	server *running
	raw    *net.TCPConn
	conn   net.Conn      // raw, or TLS over it
	closed chan struct{} // closed when the client has closed the connection, or it is broken

	mu    sync.Mutex
	wire  []byte // received from raw
	got   []byte // received from conn
	more  chan struct{}
	ended bool
	sent  int // bytes that split has written
}

func (s server) start(scripts []script) *running {
	if s.full {
		return s.startFull()
	}
	address := s.address
	if address == "" {
		address = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		panic(fmt.Sprintf("listen: %v", err))
	}
	r := &running{server: s, listener: listener.(*net.TCPListener), drained: make(chan struct{})}
	r.scripts = scripts
	r.port = listener.Addr().(*net.TCPAddr).Port
	r.wg.Go(r.accept)
	return r
}

// startFull returns a server whose backlog is full.
func (s server) startFull() *running {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(fmt.Sprintf("socket: %v", err))
	}
	file := os.NewFile(uintptr(fd), "listener")
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		panic(fmt.Sprintf("listen: %v", err))
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		panic(fmt.Sprintf("getsockname: %v", err))
	}
	r := &running{server: s, port: at.(*syscall.SockaddrInet4).Port, fillers: []io.Closer{file}}
	for { // until a connection times out
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)), 100*time.Millisecond)
		if err != nil {
			return r
		}
		r.fillers = append(r.fillers, conn)
	}
}

func (r *running) accept() {
	for {
		conn, err := r.listener.AcceptTCP()
		if err != nil {
			return
		}
		r.mu.Lock()
		last := r.last == conn.RemoteAddr().String()
		r.mu.Unlock()
		if last {
			_ = conn.Close()
			close(r.drained)
			return
		}
		c := &served{server: r, raw: conn, closed: make(chan struct{}), more: make(chan struct{}, 1)}
		c.conn = &tee{TCPConn: conn, to: c}
		if r.tls != nil {
			c.conn = tls.Server(c.conn, r.tls)
		}
		r.mu.Lock()
		n := len(r.conns)
		if !r.forgets {
			r.conns = append(r.conns, c)
		}
		r.mu.Unlock()
		r.wg.Go(c.read)
		r.wg.Go(func() { c.play(r.scripts[min(n, len(r.scripts)-1)]) })
	}
}

// tee records the received bytes.
type tee struct {
	*net.TCPConn
	to    *served
	wrote int
	ended bool
}

// Write calls cutBy after cut bytes.
func (t *tee) Write(b []byte) (int, error) {
	s := t.to.server.server
	if s.cut == 0 || t.wrote+len(b) < s.cut {
		t.wrote += len(b)
		return t.TCPConn.Write(b)
	}
	if isHang(s.cutBy) && t.ended {
		return len(b), nil
	}
	if !t.ended {
		t.ended = true
		_, _ = t.TCPConn.Write(b[:s.cut-t.wrote])
		time.Sleep(20 * time.Millisecond)
		if isHang(s.cutBy) {
			return len(b), nil // write nothing further
		}
		_ = s.cutBy(t.to)
	}
	return 0, net.ErrClosed
}

func (t *tee) Read(b []byte) (int, error) {
	n, err := t.TCPConn.Read(b)
	t.to.mu.Lock()
	t.to.wire = append(t.to.wire, b[:n]...)
	t.to.mu.Unlock()
	return n, err
}

// read records the received bytes until the end of the connection. Clients must not send endless requests.
func (c *served) read() {
	defer close(c.closed)
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.conn.Read(buffer)
		c.mu.Lock()
		c.got = append(c.got, buffer[:n]...)
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *served) play(s script) {
	for _, step := range s {
		if err := c.do(step); err != nil {
			break
		}
	}
	if c.server.cutBy == nil || !isHang(c.server.cutBy) {
		if c.server.tls != nil {
			_ = c.conn.(*tls.Conn).CloseWrite()
		}
		_ = c.raw.CloseWrite()
	}
	<-c.closed
	_ = c.raw.Close()
}

func (c *served) do(step any) error {
	switch step := step.(type) {
	case string:
		_, err := io.WriteString(c.conn, c.server.fill(step))
		return err
	case time.Duration:
		time.Sleep(step)
		return nil
	case await:
		return c.await(step)
	case act:
		return step(c)
	default:
		panic(fmt.Sprintf("step of type %T", step))
	}
}

func (c *served) await(enough await) error {
	for {
		c.mu.Lock()
		ok := enough(c.got)
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-c.more:
		case <-c.closed:
			return io.EOF
		}
	}
}

func (r *running) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return strings.NewReplacer("{port}", strconv.Itoa(r.port), "{other}", strconv.Itoa(r.otherPort)).Replace(text)
}

// openFor is the time in which a client must close its connections after the probe.
const openFor = 2 * time.Second

// stop ends the server when its connections have ended, or after openFor. It returns a description of each
// connection, in the order in which they were accepted.
func (r *running) stop() []string {
	if r.listener == nil {
		for _, c := range r.fillers {
			_ = c.Close()
		}
		return nil
	}
	r.drain()
	_ = r.listener.Close()
	late := time.AfterFunc(openFor, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.conns {
			c.mu.Lock()
			c.ended = true
			c.mu.Unlock()
			_ = c.raw.Close()
		}
	})
	r.wg.Wait()
	open := !late.Stop()
	var saw []string
	for _, c := range r.conns {
		text := c.describe()
		if open && c.ended {
			text += " (left open)"
		}
		saw = append(saw, text)
	}
	return saw
}

// drain waits until all connections of clients are accepted. It makes another connection: connections are
// accepted in order.
func (r *running) drain() {
	r.mu.Lock()
	conn, err := net.DialTimeout("tcp", r.listener.Addr().String(), openFor)
	if err == nil {
		r.last = conn.LocalAddr().String()
	}
	r.mu.Unlock()
	if err == nil {
		<-r.drained
		_ = conn.Close()
	}
}

// describe describes the bytes that the server received.
func (c *served) describe() string {
	var text strings.Builder
	if len(c.wire) > 0 && c.wire[0] == 0x16 {
		text.WriteString(describeHello(c.wire))
		if c.server.tls == nil {
			return text.String()
		}
		text.WriteString(": ")
	}
	if c.server.frames {
		text.WriteString(describeFrames(c.got, c.server.tls == nil))
	} else {
		fmt.Fprintf(&text, "%q", c.got)
	}
	return text.String()
}

// describeHello describes the first TLS message of a client.
func describeHello(wire []byte) string {
	text := "no hello"
	seen := errors.New("seen")
	_ = tls.Server(&replay{Reader: bytes.NewReader(wire)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		text = fmt.Sprintf("hello{name %q, protocols %q, versions %x, ciphers %x, curves %v, schemes %v, extensions %v}",
			h.ServerName, h.SupportedProtos, h.SupportedVersions, h.CipherSuites, h.SupportedCurves, h.SignatureSchemes, h.Extensions)
		return nil, seen
	}}).Handshake()
	return text
}

// replay is a connection that returns recorded bytes.
type replay struct {
	net.Conn
	io.Reader
}

func (r *replay) Read(b []byte) (int, error)  { return r.Reader.Read(b) }
func (r *replay) Write(b []byte) (int, error) { return len(b), nil }
func (r *replay) Close() error                { return nil }
