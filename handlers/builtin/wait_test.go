package builtin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// hang makes an attempt that must end at its deadline, and returns what it waited for by the
// details. It compares the last event of the trace with them.
func hang(t *testing.T, h probe.Handler) string { return hangFor(t, h, 200*time.Millisecond) }

func hangFor(t *testing.T, h probe.Handler, timeout time.Duration) string {
	t.Helper()
	var last probe.TraceEvent
	traced, err := attempt(t, h, probe.Request{Trace: func(e probe.TraceEvent) { last = e }}, timeout)
	if err != nil || traced.Result != probe.Failure {
		t.Fatalf("got %v, %v", traced, err)
	}
	waiting := waitingOf(t, traced)
	if last.Type != probe.TraceWait || !strings.HasPrefix(waiting, last.Name+" ") || last.Duration <= 0 {
		t.Errorf("last event %+v; details %s", last, waiting)
	}
	plain, err := attempt(t, h, probe.Request{}, timeout)
	if err != nil || plain.Output != traced.Output {
		t.Errorf("without a trace %q, %v; with one %q", plain.Output, err, traced.Output)
	}
	if got, with := strings.Fields(waitingOf(t, plain))[0], strings.Fields(waiting)[0]; got != with {
		t.Errorf("without a trace it waits for %q, with one for %q", got, with)
	}
	return waiting
}

func waitingOf(t *testing.T, out probe.Outcome) string {
	t.Helper()
	return detail(t, out, "waiting")
}

// detail returns a field of the details, "" if it is not set.
func detail(t *testing.T, out probe.Outcome, name string) string {
	t.Helper()
	if out.Details == "" {
		return ""
	}
	var fields map[string]string
	if err := json.Unmarshal([]byte(out.Details), &fields); err != nil {
		t.Fatalf("details %q: %v", out.Details, err)
	}
	return fields[name]
}

func wantWaiting(t *testing.T, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("waiting %q does not match %s", got, pattern)
	}
}

// peer accepts connections on loopback and calls serve with each, which may block until the
// connection is closed at the end of the test.
func peer(t *testing.T, serve func(c net.Conn)) (port int) {
	t.Helper()
	l, port := loopback(t)
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			serving.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return port
}

// silent reads and never answers.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestHTTPHangIsExplained(t *testing.T) {
	const took = `waiting for \d+ms; `
	drip := func(c net.Conn, head string, left time.Duration) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, err := io.WriteString(c, head)
		ticks := time.NewTicker(left)
		defer ticks.Stop()
		for err == nil {
			<-ticks.C
			_, err = io.WriteString(c, "x")
		}
	}
	for _, c := range []struct {
		name, scheme, pattern string
		serve                 func(c net.Conn)
	}{
		{"no answer", "HTTP", `^http tcp 127.0.0.1:\d+: ` + took + `no response headers; connected after .*; \d+ bytes sent, 0 received$`, silent},
		{"half of the headers", "HTTP", `^http tcp .*: ` + took + `the response headers are not finished; .*, [1-9]\d* received`, func(c net.Conn) {
			drip(c, "HTTP/1.1 200 OK\r\nX-A: ", 20*time.Millisecond)
		}},
		{"no body", "HTTP", `^body tcp .*: ` + took + `status 200; the body is not finished; .* 38 received, the last \d+ms ago$`, func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadString('\n') // an answer before the request is another error
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
			silent(c)
		}},
		{"a body that drips", "HTTP", `^body tcp .*: ` + took + `status 503; the body is not finished; .*, the last .*s ago$`, func(c net.Conn) {
			drip(c, "HTTP/1.1 503 x\r\nContent-Length: 9999\r\n\r\n", 20*time.Millisecond)
		}},
		{"no TLS handshake", "HTTPS", `^tls tcp .*: ` + took + `the handshake is not finished; connected after .*; \d+ bytes sent, 0 received$`, silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := prepare(t, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"scheme":%q,"host":"127.0.0.1"}`, peer(t, c.serve), c.scheme))
			wantWaiting(t, hang(t, h), c.pattern)
		})
	}
	t.Run("no answer after the TLS handshake", func(t *testing.T) {
		block := make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		t.Cleanup(func() { close(block) })
		h := prepare(t, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"scheme":"HTTPS","host":"127.0.0.1"}`, portOf(t, s.Listener.Addr())))
		wantWaiting(t, hangFor(t, h, time.Second), `^http tcp .*: waiting for .*; .*headers`) // time for a handshake
	})
}

// prepared binds p to config and target.
func prepared(t *testing.T, p probe.Preparer, config string, target probe.Target) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// blackHole is a dial that never connects.
func blackHole(ctx context.Context, network, address string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
}

func TestDialHangNamesAddress(t *testing.T) {
	cfg := builtin.Config{DialContext: blackHole}
	const want = `^dial tcp 192.0.2.1:80: waiting for \d+ms; no answer to the SYN`
	for name, h := range map[string]probe.Handler{
		"tcp":  prepare(t, builtin.NewTCP(cfg), `{"port":80,"host":"192.0.2.1"}`),
		"http": prepare(t, builtin.NewHTTP(cfg), `{"port":80,"host":"192.0.2.1"}`),
		"grpc": prepared(t, builtin.NewGRPC(cfg), `{"port":80}`, probe.Target{Host: "192.0.2.1"}),
	} {
		t.Run(name, func(t *testing.T) { wantWaiting(t, hang(t, h), want) })
	}
	t.Run("dns", func(t *testing.T) {
		cfg := builtin.Config{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "i/o timeout", Name: "db.internal", IsTimeout: true}}
		}}
		h := prepare(t, builtin.NewTCP(cfg), `{"port":80,"host":"db.internal"}`)
		wantWaiting(t, hang(t, h), `^dns db.internal: waiting for \d+ms; no answer from the resolver$`)
	})
}

func TestGRPCHangIsExplained(t *testing.T) {
	handler := func(t *testing.T, port int, mode string) probe.Handler {
		return prepared(t, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d%s}`, port, mode), probe.Target{Host: "127.0.0.1"})
	}
	t.Run("no settings", func(t *testing.T) {
		wantWaiting(t, hang(t, handler(t, peer(t, silent), "")), `^http2 tcp .*: waiting for \d+ms; no HTTP/2 settings from the server; connected after .*`)
	})
	t.Run("no answer", func(t *testing.T) {
		l, port := loopback(t)
		serveGRPC(t, l, nil, grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { <-s.Context().Done(); return nil }))
		wantWaiting(t, hang(t, handler(t, port, "")), `^grpc tcp .*: waiting for \d+ms; no answer to grpc.health.v1.Health/Check`)
	})
	t.Run("nobody listens", func(t *testing.T) {
		l, port := loopback(t)
		_ = l.Close()
		wantWaiting(t, hang(t, handler(t, port, "")), `^dial tcp .*: waiting for .*: connection refused; waits before the next dial$`)
	})
}

func TestExecHangShowsOutputAndProcessorTime(t *testing.T) {
	for command, pattern := range map[string]string{
		"sleep 9":                              `^exec sleep 9: still running for \d+ms; no output; it .* of processor time`,
		"while :; do :; done":                  `^exec sh -c "while :; do :; done": still running for \d+ms; no output; it .*: \d+(\.\d+)?m?s of processor time`,
		`echo one; printf 'wait\033'; sleep 9`: `; 9 bytes of output, the last line "wait\\x1b"; it `,
	} {
		t.Run(command, func(t *testing.T) {
			args := []string{"sh", "-c", command}
			if command == "sleep 9" {
				args = strings.Fields(command)
			}
			wantWaiting(t, hang(t, execHandler(t, new(builtin.HostRunner), args...)), pattern)
		})
	}
}

func TestExecTraceShowsRun(t *testing.T) {
	var events []probe.TraceEvent
	h := execHandler(t, new(builtin.HostRunner), "sh", "-c", "echo no; exit 3")
	_, err := attempt(t, h, probe.Request{Trace: func(e probe.TraceEvent) { events = append(events, e) }}, time.Minute)
	const want = `sh -c "echo no; exit 3": exit code 3; 3 bytes of output, the last line "no"`
	if err != nil || len(events) != 1 || events[0].Name != "exec" || events[0].Detail != want {
		t.Errorf("events %+v, %v", events, err)
	}
}

func TestAnswerInTimeHasNoDetails(t *testing.T) {
	_, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := prepare(t, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
	if out, err := attempt(t, h, probe.Request{}, time.Minute); err != nil || out.Details != "" {
		t.Errorf("got %+v, %v", out, err)
	}
}
