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

// script is what a server does with one connection, in this order:
//
//   - a string is written. {port} and {other} in it are the ports of the server and of its other one;
//   - a [time.Duration] is a pause;
//   - an await waits until enough was received;
//   - an act is something else.
//
// At its end the server closes its direction, and reads until the client closes the other one.
type script []any

// await reports whether enough was received to continue.
type await func(got []byte) bool

// request waits for an HTTP/1 request without a body, or the beginning of a TLS handshake.
var request await = func(got []byte) bool {
	return bytes.Contains(got, []byte("\r\n\r\n")) || len(got) > 0 && got[0] == 0x16
}

// act is done with a connection. It returns an error to end the script.
type act func(c *served) error

var (
	// hang does nothing until the client closes. The probe gets a short deadline.
	hang act = func(c *served) error { <-c.gone; return io.EOF }
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

// endless writes text until the client is gone.
func endless(text string) act {
	return func(c *served) error {
		many := []byte(strings.Repeat(text, max(1, (16<<10)/len(text))))
		for {
			if _, err := c.conn.Write(many); err != nil {
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

// server is what listens. Nil scripts: nobody does.
type server struct {
	address string      // to listen at; 127.0.0.1 if empty
	tls     *tls.Config // nil: none
	scripts []script    // of the first connection, the second, ...; the last is that of all that follow
	other   []script    // of a second server, if there are any; without TLS
	frames  bool        // what is received is described as HTTP/2 frames
	cut     int         // the byte of the server, counted from 1, after which cutBy is done; 0: none
	cutBy   act
	full    bool // its backlog is full: it accepts nothing
}

// answers returns a server that waits for a request and then follows the script.
func answers(steps ...any) server {
	return server{scripts: []script{append(script{request}, steps...)}}
}

// begins returns a server that follows the script without waiting.
func begins(steps ...any) server { return server{scripts: []script{steps}} }

// each returns a server that answers the first request with the first text, and so on.
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

// running is a server that listens.
type running struct {
	server
	listener  *net.TCPListener
	port      int
	otherPort int
	fillers   []io.Closer // of a backlog
	forgets   bool        // it does not keep its connections

	wg      sync.WaitGroup
	drained chan struct{} // closed when the last connection is accepted
	mu      sync.Mutex
	conns   []*served
	last    string // address of the connection that ends the server
}

// served is one connection of a server.
type served struct {
	of   *running
	raw  *net.TCPConn
	conn net.Conn      // raw, or TLS over it
	gone chan struct{} // closed when the client has closed, or the connection is broken

	mu    sync.Mutex
	wire  []byte // received from raw
	got   []byte // received from conn
	more  chan struct{}
	ended bool
	sent  int // by split
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
	for { // until one is not accepted
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
		c := &served{of: r, raw: conn, gone: make(chan struct{}), more: make(chan struct{}, 1)}
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

// tee keeps what is received.
type tee struct {
	*net.TCPConn
	to    *served
	wrote int
	ended bool
}

// Write ends the connection where the server is cut.
func (t *tee) Write(b []byte) (int, error) {
	s := t.to.of.server
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
			return len(b), nil // and nothing more
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

// read receives until the end. An endless request is not expected.
func (c *served) read() {
	defer close(c.gone)
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
	if c.of.cutBy == nil || !isHang(c.of.cutBy) {
		if c.of.tls != nil {
			_ = c.conn.(*tls.Conn).CloseWrite()
		}
		_ = c.raw.CloseWrite()
	}
	<-c.gone
	_ = c.raw.Close()
}

func (c *served) do(step any) error {
	switch step := step.(type) {
	case string:
		_, err := io.WriteString(c.conn, c.of.fill(step))
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
		case <-c.gone:
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

// openFor is how long a client may take to close its connections after the probe.
const openFor = 2 * time.Second

// stop ends the server when its connections have ended. It returns what it saw of each, in the
// order in which they were accepted.
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

// drain waits until every connection that was made is accepted. They are accepted in order, and the
// last one is its own.
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

// describe returns what the server received.
func (c *served) describe() string {
	var text strings.Builder
	if len(c.wire) > 0 && c.wire[0] == 0x16 {
		text.WriteString(describeHello(c.wire))
		if c.of.tls == nil {
			return text.String()
		}
		text.WriteString(": ")
	}
	if c.of.frames {
		text.WriteString(describeFrames(c.got, c.of.tls == nil))
	} else {
		fmt.Fprintf(&text, "%q", c.got)
	}
	return text.String()
}

// describeHello returns what a client offers in its first message.
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

// replay is a connection that was recorded.
type replay struct {
	net.Conn
	io.Reader
}

func (r *replay) Read(b []byte) (int, error)  { return r.Reader.Read(b) }
func (r *replay) Write(b []byte) (int, error) { return len(b), nil }
func (r *replay) Close() error                { return nil }
