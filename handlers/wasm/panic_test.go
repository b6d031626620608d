package wasm_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// fragile is a connection that panics when it is closed with all others of its attempt.
type fragile struct {
	net.Conn
	read func()
}

func (c *fragile) Read(p []byte) (int, error) {
	c.read()
	return c.Conn.Read(p)
}

func (c *fragile) Close() error {
	if bytes.Contains(debug.Stack(), []byte("closeAll")) {
		panic("fragile")
	}
	return c.Conn.Close()
}

// panicHost is a host whose connections are fragile, and the other ends of them.
func panicHost(t *testing.T, read func(), log slog.Handler) (h *wasm.Host, ends <-chan net.Conn) {
	t.Helper()
	far := make(chan net.Conn, 1)
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter, Logger: slog.New(log),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, end := net.Pipe()
			far <- end
			return &fragile{near, read}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, far
}

// wantNothingHeld closes host and plugin after nothing is left of the attempts.
func wantNothingHeld(t *testing.T, h *wasm.Host, p *wasm.Handler) {
	t.Helper()
	if got := wasm.FreePlaces(h); got != runtime.GOMAXPROCS(0) {
		t.Errorf("%d places are free", got)
	}
	if got := p.Stats(); got.Busy != 0 {
		t.Fatalf("got %+v, want no instance to be busy", got) // and Close would wait for it
	}
	if err := h.Close(); err != nil || h.Memory() != 0 {
		t.Errorf("got %v, and %d bytes are in use", err, h.Memory())
	}
}

// panics makes an attempt that is to panic.
func panics(t *testing.T, p probe.Handler, req probe.Request) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the attempt did not panic")
		}
	}()
	_, _ = attempt(t, p, req, 5*time.Second)
}

// What panics is not the guest's, but that of who embeds the host.
func TestAPanicKeepsNothing(t *testing.T) {
	t.Run("of a connection", func(t *testing.T) {
		h, ends := panicHost(t, func() {}, slog.DiscardHandler)
		p, err := h.LoadGranted(t.Context(), guestFile(t, "late"), lateManifest(plugin.Reset), grants(t, "kv", "dns"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { (<-ends).Close() }()
		panics(t, bind(t, p, `{"then":"0"}`, elsewhere), probe.Request{Target: elsewhere})
		wantNothingHeld(t, h, p)
	})
	t.Run("of a trace", func(t *testing.T) {
		h, _ := panicHost(t, nil, slog.DiscardHandler)
		p, err := h.Load(t.Context(), assemble(t, `(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\08\00\00\00")
  (data (i32.const 16) "half a l")
  (func (export "probe") (result i32) i32.const 1 i32.const 0 i32.const 1 i32.const 8 call $write drop i32.const 0))`), plugin.Minimal("half"))
		if err != nil {
			t.Fatal(err)
		}
		panics(t, p, probe.Request{Trace: func(probe.TraceEvent) { panic("fragile") }})
		wantNothingHeld(t, h, p)
	})
}

// brittle is a connection that panics when it is read from, or when the deadline closes it,
// which the end of its attempt waits for then.
type brittle struct {
	net.Conn
	reads  bool
	read   func()
	closed chan struct{}
}

func (c *brittle) Read(p []byte) (int, error) {
	if c.read(); c.reads {
		panic("brittle")
	}
	return c.Conn.Read(p)
}

func (c *brittle) Close() error {
	switch {
	case c.reads:
	case bytes.Contains(debug.Stack(), []byte("closeAll")):
		<-c.closed
	default:
		close(c.closed)
		panic("brittle")
	}
	return c.Conn.Close()
}

// What runs beside the guest has nobody to recover its panic.
func TestAPanicBesideTheGuestEndsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		reads     bool
		isolation plugin.Isolation
	}{
		"of a read":                  {true, plugin.Reset},
		"of a close in grace":        {false, plugin.Reset},
		"of a close without a grace": {false, plugin.Fresh},
	} {
		t.Run(name, func(t *testing.T) {
			due := newDue(t)
			c := &brittle{reads: tc.reads, read: func() {}, closed: make(chan struct{})}
			if !tc.reads {
				c.read = due.pass
			}
			h := graceHost(t, func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				t.Cleanup(func() { far.Close() })
				c.Conn = near
				return c, nil
			})
			p := loadLate(t, h, tc.isolation)
			got, err := bind(t, p, `{"then":"0"}`, elsewhere).Probe(due, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}})
			if !tc.reads {
				wantTimedOut(t, got, err, time.Minute)
			} else if probe.ReasonOf(err) != probe.ReasonTrap || !strings.Contains(err.Error(), "brittle") { // as of a dial
				t.Errorf("got %+v, %v", got, err)
			}
			wasm.WaitForGuests(p)
			if got := wasm.FreePlaces(h); got != runtime.GOMAXPROCS(0) {
				t.Errorf("%d places are free", got)
			}
		})
	}
}

// abrupt is a connection that panics where crypto/tls closes it because its time is over.
type abrupt struct {
	net.Conn
	read func()
}

func (a abrupt) Read(p []byte) (int, error) {
	a.read()
	return a.Conn.Read(p)
}

func (a abrupt) Close() error {
	_ = a.Conn.Close()
	if bytes.Contains(debug.Stack(), []byte("handshakeContext")) {
		panic("abrupt")
	}
	return nil
}

// Nor has what crypto/tls does beside a handshake.
func TestAPanicBesideAHandshakeEndsNothing(t *testing.T) {
	for guest, config := range map[string]string{
		"dialurl": `{"url":"tls://10.0.0.7:80?verify=none"}`,
		"http":    request(t, map[string]any{"url": "https:///", "tls": map[string]any{"verify": "none"}}, true),
	} {
		t.Run(guest, func(t *testing.T) {
			due := newDue(t)
			h := graceHost(t, func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				t.Cleanup(func() { far.Close() })
				go func() { _, _ = io.Copy(io.Discard, far) }()
				return abrupt{near, due.pass}, nil
			})
			p := load(t, h, guest, plugin.Reset)
			got, err := bind(t, p, config, elsewhere).Probe(due, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}})
			wantTimedOut(t, got, err, time.Minute)
			wasm.WaitForGuests(p)
		})
	}
}

// frail is a connection that panics in one of its methods.
type frail struct {
	net.Conn
	in string
}

func (f frail) Read(p []byte) (int, error) {
	f.panics("read")
	return f.Conn.Read(p)
}

func (f frail) Write(p []byte) (int, error) {
	f.panics("write")
	return f.Conn.Write(p)
}

func (f frail) Close() error {
	_ = f.Conn.Close()
	f.panics("close")
	return nil
}

func (f frail) panics(in string) {
	if f.in == in {
		panic("frail")
	}
}

// Nor has what net/http does on goroutines of its own.
func TestAPanicInsideARequestEndsNothing(t *testing.T) {
	for scheme, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		s, target := web(t, start, "")
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		for _, in := range []string{"dial", "read", "write", "close"} {
			t.Run(scheme+" "+in, func(t *testing.T) {
				h, err := wasm.New(wasm.Config{
					CacheDir: testCache(scratch), Interpreter: interpreter,
					DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
						frail{in: in}.panics("dial")
						c, err := new(net.Dialer).DialContext(ctx, network, addr)
						return frail{c, in}, err
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				p := load(t, h, "http", plugin.Reset)
				asked := request(t, map[string]any{"url": scheme + ":///a", "tls": map[string]any{"verify": "none"}}, true)
				got, err := attempt(t, bind(t, p, asked, target), probe.Request{Target: target}, patience)
				if in == "close" {
					if err != nil || got.Output != "GET /a  posted" {
						t.Errorf("got %+v, %v", got, err)
					}
				} else if probe.ReasonOf(err) != probe.ReasonTrap || !strings.Contains(err.Error(), "frail") {
					t.Errorf("got %+v, %v", got, err)
				}
				wantNothingHeld(t, h, p)
			})
		}
	}
}

// told is a log that tells of its lines.
type told struct {
	slog.Handler
	lines chan string
}

func (l told) Handle(_ context.Context, r slog.Record) error {
	l.lines <- r.Message
	return nil
}

// unseen is a deadline that the guest sees before whoever waits for its answer does.
type unseen struct{ *dueContext }

func (unseen) Done() <-chan struct{} { return nil }

func TestAPanicInGraceKeepsNothing(t *testing.T) {
	for name, seen := range map[string]bool{"of which the deadline is seen": true, "of which the panic is seen": false} {
		t.Run(name, func(t *testing.T) {
			due, lines := newDue(t), make(chan string, 1)
			h, ends := panicHost(t, due.pass, told{slog.NewTextHandler(io.Discard, nil), lines})
			p, err := h.LoadGranted(t.Context(), guestFile(t, "late"), lateManifest(plugin.Reset), grants(t, "kv", "dns"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, hangUp := context.Context(due), func() { (<-ends).Close() }
			if !seen {
				ctx = unseen{due}
				go hangUp()
			}
			got, err := bind(t, p, `{"then":"0"}`, elsewhere).Probe(ctx, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}})
			wantTimedOut(t, got, err, time.Minute)
			if line := <-lines; line != "an attempt panicked after its deadline" {
				t.Errorf("log: %s", line)
			}
			if seen {
				hangUp()
			}
			wantNothingHeld(t, h, p)
		})
	}
}

// unlucky is a guest whose instances begin with _initialize each, which says half a line
// and traps as soon as what it takes for random is none.
const unlucky = `(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (table 1 funcref)
  (data (i32.const 0) "\10\00\00\00\08\00\00\00")
  (data (i32.const 16) "half a l")
  (func (export "_initialize")
    i32.const 32 i32.const 4 call $random drop
    i32.const 32 i32.load
    if i32.const 2 i32.const 0 i32.const 1 i32.const 8 call $write drop unreachable end)
  (func (export "probe") (result i32) ref.null i32.const 1 table.grow drop i32.const 0))`

// fragileLog panics when something is logged.
type fragileLog struct{ slog.Handler }

func (fragileLog) Handle(context.Context, slog.Record) error { panic("fragile") }

// dice is what a host takes for random.
type dice struct{ side atomic.Uint32 }

func (d *dice) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(d.side.Load())
	}
	return len(p), nil
}

func TestAPanicWhileAnInstanceStartsKeepsNothing(t *testing.T) {
	debug := slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})
	var luck dice
	h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter, Logger: slog.New(fragileLog{debug}), Rand: &luck})
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Load(t.Context(), assemble(t, unlucky), plugin.Minimal("unlucky"))
	if err != nil {
		t.Fatal(err)
	}
	luck.side.Store(1)
	panics(t, p, probe.Request{})
	wantNothingHeld(t, h, p)
}
