package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// fault is the misbehaviour of a peer, in place of the rest of its answer.
type fault string

const (
	silent  fault = "silent"  // sends nothing more
	drips   fault = "drips"   // sends all but the last byte of its message, byte by byte
	closes  fault = "closes"  // closes the connection
	resets  fault = "resets"  // resets the connection
	garbage fault = "garbage" // sends noise, and then nothing
)

// noise is the text that a peer with the fault garbage sends.
const noise = "\x00\xff\xfe\x1b[31m\u202e\x80noise\r\n\r\n\t.\n"

// peer is a server on loopback. On a connection it sends the same as a healthy server, up to cut bytes.
// Then it misbehaves as its fault says. A peer without a fault is healthy.
type peer struct {
	fault fault
	cut   int
	deaf  bool // it reads nothing
	port  int

	second bool // a connection is healthy until the path after a redirect is requested

	ends  context.Context // ends with the test
	mu    sync.Mutex
	conns []*cutConn
	stuck chan struct{} // closed when the first connection has reached the cut
	once  sync.Once
	marks []mark // recorded by a healthy peer

	finish   sync.Once
	finished chan struct{} // closed when a healthy peer has recorded all of its marks
}

// mark is the number of bytes that a healthy peer has sent at the end of a part of its exchange.
type mark struct {
	part string
	said int
}

// cutConn is a connection of a peer.
type cutConn struct {
	net.Conn
	of        *peer
	said, got atomic.Int64
	over      atomic.Bool  // the cut was reached, and nothing more is sent
	first     atomic.Int64 // number of bytes of the first write
	healthy   bool
}

// listen starts to listen on loopback.
func (p *peer) listen(t *testing.T) net.Listener {
	t.Helper()
	listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if p.deaf {
			return c.Control(smallReceiveBuffer)
		}
		return nil
	}}
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.port, p.stuck, p.finished, p.ends = l.Addr().(*net.TCPAddr).Port, make(chan struct{}), make(chan struct{}), t.Context()
	return &cutListener{l, p}
}

type cutListener struct {
	net.Listener
	of *peer
}

func (l *cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &cutConn{Conn: c, of: l.of, healthy: l.of.fault == "" || l.of.second}
	l.of.mu.Lock()
	l.of.conns = append(l.of.conns, conn)
	l.of.mu.Unlock()
	return conn, nil
}

// Read counts the bytes that the client has sent.
func (c *cutConn) Read(b []byte) (int, error) {
	if c.of.deaf {
		c.of.isStuck()
		<-c.of.ends.Done()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	c.got.Add(int64(n))
	return n, err
}

// say sends b. It counts the bytes before the client can receive them.
func (c *cutConn) say(b []byte) (int, error) {
	c.said.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	c.said.Add(int64(n - len(b)))
	return n, err
}

// Write sends b, up to the cut.
func (c *cutConn) Write(b []byte) (int, error) {
	left := c.of.cut - int(c.said.Load())
	switch {
	case c.healthy:
		c.first.CompareAndSwap(0, int64(len(b)))
		return c.say(b)
	case c.over.Load():
		return len(b), nil
	case len(b) < left, len(b) == left && c.of.fault == drips:
		return c.say(b)
	}
	c.over.Store(true)
	_, _ = c.say(b[:left])
	switch rest := b[left:]; c.of.fault {
	case drips:
		go c.drip(bytes.Clone(rest[:max(0, len(rest)-1)]))
	case closes:
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	case resets:
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		_ = c.Conn.Close()
	case garbage:
		_, _ = c.say([]byte(noise))
	}
	c.of.isStuck()
	return len(b), nil
}

// Close leaves the connection open if the cut was reached.
func (c *cutConn) Close() error {
	if c.over.Load() && c.of.ends.Err() == nil {
		go func() {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Conn.Close()
		}()
		return nil
	}
	return c.Conn.Close()
}

func (c *cutConn) drip(b []byte) {
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for i := range b {
		if _, err := c.say(b[i : i+1]); err != nil {
			return
		}
		<-ticks.C
	}
}

func (p *peer) isStuck() { p.once.Do(func() { close(p.stuck) }) }

// note records a mark of the only connection.
func (p *peer) note(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.conns) - 1; p.fault == "" && n >= 0 && (n == 1) == p.second {
		p.marks = append(p.marks, mark{part, int(p.conns[n].said.Load())})
	}
}

// isFinished records that there are no more marks.
func (p *peer) isFinished() { p.finish.Do(func() { close(p.finished) }) }

// partAt returns the part of a healthy peer's exchange that is unfinished at a cut.
func (p *peer) partAt(cut int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.marks {
		if cut < m.said {
			return m.part
		}
	}
	return ""
}

// close ends all connections.
func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Conn.Close()
	}
}

// counts returns the numbers of bytes that the last connection has sent and received. ok is false if
// there is none.
func (p *peer) counts() (said, got int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) == 0 {
		return 0, 0, false
	}
	c := p.conns[len(p.conns)-1]
	return c.said.Load(), c.got.Load(), true
}

// serverTLS returns the TLS configuration of peers, with the certificate of httptest.
func serverTLS(protocols ...string) *tls.Config {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	c := s.TLS.Clone()
	c.NextProtos = protocols
	return c
}

// notes returns a copy of secure that records the end of the server's part of the handshake.
func (p *peer) notes(secure *tls.Config) *tls.Config {
	own := secure.Clone()
	own.VerifyConnection = func(tls.ConnectionState) error { // called before the client's last message is read
		p.note("tls")
		return nil
	}
	return own
}

const (
	webBody  = "everything is fine"
	greeting = "220 mail.internal ready\r\n"
	goodbye  = "250 fine\r\n"
)

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// serveWeb serves HTTP/1.1, and HTTP/2 if TLS negotiates it.
func serveWeb(t *testing.T, p *peer, secure *tls.Config) {
	l := p.listen(t)
	if secure != nil {
		l = tls.NewListener(l, p.notes(secure))
	}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if c, ok := r.Context().Value(connKey{}).(*cutConn); ok && r.URL.Path != "/moved" {
			c.healthy = p.fault == ""
		}
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/x")
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(webBody)))
		_ = http.NewResponseController(w).Flush()
		p.note("http")
		_, _ = io.WriteString(w, webBody[:4])
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, webBody[4:])
		_ = http.NewResponseController(w).Flush()
		p.note("body")
		p.isFinished()
	})}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { _ = s.Close(); p.close(); serving.Wait() })
}

// serveHealth serves grpc.health.v1.
func serveHealth(t *testing.T, p *peer, secure *tls.Config) {
	l := p.listen(t)
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(p.notes(secure))))
	}
	s := grpc.NewServer(append(options, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		p.noteSettings(secure != nil)
		p.isFinished()
		return handle(ctx, req)
	}))...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { p.close(); s.Stop(); serving.Wait() })
}

// noteSettings records the marks of a gRPC call. Without TLS, the settings are sent alone.
func (p *peer) noteSettings(secure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != "" || len(p.conns) != 1 {
		return
	}
	c := p.conns[0]
	if secure {
		p.marks = append(p.marks, mark{"settings or call", int(c.said.Load())})
		return
	}
	p.marks = []mark{{"settings", int(c.first.Load())}, {"call", int(c.said.Load()) + 1}}
}

// serveLines sends a greeting, reads a line and answers it. With start, it does so before STARTTLS too.
func serveLines(t *testing.T, p *peer, secure *tls.Config, start bool) {
	l := p.listen(t)
	var serving sync.WaitGroup
	talk := func(c net.Conn, name string) bool {
		if _, err := io.WriteString(c, greeting); err != nil {
			return false
		}
		p.note("greeting" + name)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "\n") {
			return false
		}
		_, err := io.WriteString(c, goodbye)
		if p.note("answer" + name); name == "" {
			p.isFinished()
		}
		return err == nil
	}
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				if start && !talk(c, " before TLS") {
					return
				}
				if secure != nil {
					secured := tls.Server(c, p.notes(secure))
					if secured.HandshakeContext(t.Context()) != nil {
						return
					}
					c = secured
				}
				if talk(c, "") {
					_, _ = io.Copy(io.Discard, c)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.close(); serving.Wait() })
}

// smallReceiveBuffer sets a small receive buffer.
func smallReceiveBuffer(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048)
}

// smallSendBuffer dials a connection with a small send buffer.
func smallSendBuffer(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(2048)
	}
	return conn, err
}

// fullQueue listens on a port with a full queue, so that dials get no answer.
func fullQueue(t *testing.T) (port int) {
	t.Helper()
	fd, port := bind(t)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return port
}

// closedPort returns a port without a listener. It stays reserved during the test.
func closedPort(t *testing.T) (port int) {
	t.Helper()
	_, port = bind(t)
	return port
}

// bind returns a socket that is bound to a port of loopback and does not listen.
func bind(t *testing.T) (fd, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, bound.(*syscall.SockaddrInet4).Port
}

// resolver returns a resolver whose server answers each question with text, or not at all if text is empty.
func resolver(t *testing.T, text string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		var question [512]byte
		for {
			_, from, err := server.ReadFrom(question[:])
			if err != nil {
				return
			}
			if text != "" {
				_, _ = server.WriteTo([]byte(text), from)
			}
		}
	})
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
