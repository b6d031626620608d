package grpcprobe_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/grpclog"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/probe"
)

// script is the behaviour of a rawServer.
type script struct {
	settings []byte // payload of the first frame
	early    []byte // frames sent with the settings, before the request
	answer   []byte // frames sent after the request
	closes   bool   // close the connection after the answer
	tls      *tls.Config
}

// rawServer serves connections as a script says. It is used inside a synctest bubble.
type rawServer struct {
	script

	mu       sync.Mutex
	conns    int
	requests []received
}

// received describes what a client has sent.
type received struct {
	Frames   []http2.FrameType // without the frames with which grpc-go estimates the bandwidth
	Settings []http2.Setting
	Fields   []hpack.HeaderField
	Message  []byte
	Acks     int
	Pongs    int
	GoAway   string
	Hello    string // TLS ClientHello
}

// dial is a dial function whose connections the server serves.
func (s *rawServer) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	client, server := net.Pipe()
	conn := newSocket(server)
	go func() {
		defer func() {
			_ = conn.Close()
			_, _ = io.Copy(io.Discard, server) // read the bytes written so far
		}()
		var r received
		if s.tls == nil {
			s.serve(conn, &r)
			return
		}
		config := s.tls.Clone()
		config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			r.Hello = fmt.Sprint(h.ServerName, h.SupportedProtos, h.SupportedVersions, h.CipherSuites, h.SupportedCurves, h.Extensions)
			return nil, nil
		}
		s.serve(tls.Server(conn, config), &r)
	}()
	return newSocket(client), nil
}

// serve serves conn until the client closes it, and adds r to the requests.
func (s *rawServer) serve(conn net.Conn, r *received) {
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	first := frames(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FrameSettings, 0, 0, s.settings) })
	if _, err := conn.Write(append(first, s.early...)); err != nil {
		return
	}
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	if r.readTo(framer, http2.FrameData) {
		_, _ = conn.Write(s.answer)
		if !s.closes {
			r.readTo(framer, http2.FrameGoAway)
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, *r)
	s.mu.Unlock()
}

// readTo reads the frames of a client up to the first one of a type. It returns false if there is none.
func (r *received) readTo(framer *http2.Framer, kind http2.FrameType) bool {
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return false
		}
		if kind := f.Header().Type; kind != http2.FramePing && kind != http2.FrameWindowUpdate {
			r.Frames = append(r.Frames, kind)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				r.Acks++
			}
			_ = f.ForeachSetting(func(s http2.Setting) error {
				r.Settings = append(r.Settings, s)
				return nil
			})
		case *http2.PingFrame:
			if f.IsAck() {
				r.Pongs++
			}
		case *http2.MetaHeadersFrame:
			r.Fields = f.Fields
		case *http2.DataFrame:
			r.Message = append(r.Message, f.Data()...)
		case *http2.GoAwayFrame:
			r.GoAway = fmt.Sprint(f.LastStreamID, f.ErrCode, string(f.DebugData()))
		}
		if f.Header().Type == kind {
			return true
		}
	}
}

// socket is an end of a [net.Pipe] whose writes do not wait for the other end, like small writes to a kernel
// socket.
type socket struct {
	net.Conn
	mu     sync.Mutex
	out    chan []byte
	closed bool
}

func newSocket(conn net.Conn) *socket {
	s := &socket{Conn: conn, out: make(chan []byte, 1024)}
	go func() {
		for b := range s.out {
			_, _ = s.Conn.Write(b)
		}
		_ = s.Conn.Close()
	}()
	return s
}

func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	s.out <- bytes.Clone(b)
	return len(b), nil
}

// SetDeadline and SetWriteDeadline do not affect writes, because writes do not wait.
func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Close closes the pipe after all written bytes were delivered.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.out)
	}
	return nil
}

// SyscallConn implements [syscall.Conn], as kernel sockets do.
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	return nil, errors.New("no descriptor")
}

// attempted is the result of an attempt, with the requests that its server received.
type attempted struct {
	Result  probe.Result
	Output  string
	Reason  probe.Reason
	Err     string
	Took    time.Duration
	Conns   int
	Request received

	channels int // number of channels that grpc-go has made
}

// channels counts the channels that grpc-go makes. grpc-go logs each of them.
var channels atomic.Int64

func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(channelLog{}, io.Discard, io.Discard)) }

type channelLog struct{}

func (channelLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("Channel created")) {
		channels.Add(1)
	}
	return len(p), nil
}

// attemptAt makes a traced attempt at s. With [probe.CompatGRPCLibrary], grpc-go makes the attempt.
func attemptAt(t *testing.T, s script, cfg grpcprobe.Config, action grpcprobe.Action, timeout time.Duration, compat probe.Compat) attempted {
	t.Helper()
	server := &rawServer{script: s}
	cfg.DialContext, cfg.Compat = server.dial, compat
	h, err := grpcprobe.New(cfg).Bind(action)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	start, before := time.Now(), channels.Load()
	out, err := h.Probe(ctx, probe.Request{Trace: ignore, Spec: probe.Spec{Timeout: timeout}})
	synctest.Wait() // for the server
	a := attempted{Result: out.Result, Output: out.Output, Reason: out.Reason, Took: time.Since(start), channels: int(channels.Load() - before)}
	if err != nil {
		a.Err = err.Error()
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	a.Conns = server.conns
	if len(server.requests) > 0 {
		a.Request = server.requests[0]
	}
	return a
}

func ignore(probe.TraceEvent) {}

// frames returns the bytes that write writes.
func frames(write func(f *http2.Framer)) []byte {
	var b bytes.Buffer
	write(http2.NewFramer(&b, nil))
	return b.Bytes()
}

// block returns a header block of names and values.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}
