package shipped_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// patience is the time limit on a slow machine for an attempt at a server that ends by itself.
const patience = time.Minute

// endless returns a server that writes text until the reader is gone.
func endless(text string) func(net.Conn) {
	chunk := []byte(strings.Repeat(text, 1+(32<<10)/len(text)))
	return func(c net.Conn) {
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}
}

// asked is a connection. Its channel first is closed when the client has sent something. If an HTTP
// server does not wait for that, net/http returns one of several errors.
type asked struct {
	net.Conn
	first chan struct{}
}

// after returns a server that calls serve after the client has sent something.
func after(serve func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		<-c.(asked).first
		serve(c)
	}
}

// discard reads until the client closes the connection. Otherwise the close of the server would be a
// reset, and the client would lose data.
func (a asked) discard() {
	_, _ = a.Read(make([]byte, 1))
	close(a.first)
	_, _ = io.Copy(io.Discard, a.Conn)
}

// says returns a server that writes text, and then nothing.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// then returns a server that calls first and then second.
func then(first, second func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) { first(c); second(c) }
}

func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 1 << 10 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHostileServersAreFailures has servers that send endlessly or send garbage. Each attempt must be a
// Failure with a message of moderate length.
func TestHostileServersAreFailures(t *testing.T) {
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	header := func(text string) func(net.Conn) {
		return after(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+text) })
	}
	zipped := bomb(t)
	for _, c := range []struct {
		name, plugin, config string
		serve                func(net.Conn)
		timeout              time.Duration
		want                 string
	}{
		{"endless body", "httpcheck", `{"failIfBodyNotMatchesRegexp":["x"]}`, then(header("\r\n"), endless("body ")), patience, "the body is longer than 16777216 bytes, the most that can be checked"},
		{"endless body that nobody checks", "httpcheck", `{}`, then(header("\r\n"), endless("body ")), patience, "reading the body: more than 67108864 bytes read"},
		{"endless body with a limit", "httpcheck", `{"bodySizeLimit":"64Ki"}`, then(header("\r\n"), endless("body ")), patience, "the body is longer than 65536 bytes"},
		{"endless header", "httpcheck", `{}`, then(header("X-A: "), endless("a")), patience, "server response headers exceeded"},
		{"header flood", "httpcheck", `{}`, then(header(""), endless("X-A: b\r\n")), patience, "server response headers exceeded"},
		{"gzip bomb", "httpcheck", `{"compression":"gzip"}`, header(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(zipped), zipped)), patience, "reading the body: more than 67108864 bytes read"},
		{"no HTTP", "httpcheck", `{}`, after(says("\x00\x01\x02\xff\xfe\r\n\r\n")), patience, "malformed HTTP"},
		{"body that does not come", "httpcheck", `{}`, then(header("Content-Length: 5\r\n\r\n"), says("a")), 200 * time.Millisecond, "timed out after 200ms"},
		{"invalid UTF-8", "httpcheck", `{"failIfBodyNotMatchesRegexp":["ok"]}`, header("Content-Length: 4\r\n\r\n\xff\xfe\x1b["), patience, `the body does not match "ok"`},
		{"deep JSON", "httpcheck", `{"jsonPath":[{"path":"a","equals":1}]}`, header("Content-Length: 1000000\r\n\r\n" + strings.Repeat("[", 1000000)), patience, "the body has no a"},
		{"endless line", "expect", `{"queryResponse":[{"expect":"x"}]}`, endless("a"), patience, "a line of more than 65536 bytes"},
		{"endless lines", "expect", `{"queryResponse":[{"expect":"x"}]}`, endless("a\n"), patience, "more than 1048576 bytes read"},
		{"silence", "expect", `{"queryResponse":[{"expect":"x"}]}`, says(""), 200 * time.Millisecond, "timed out after 200ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loaded, err := host.Load(t.Context(), found(t, c.plugin))
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			target := listen(t, c.serve)
			h, err := loaded.Prepare([]byte(c.config), target)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			out, err := h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: c.timeout}})
			if err != nil || out.Result != probe.Failure || !strings.Contains(out.Output, c.want) || len(out.Output) > 1000 {
				t.Errorf("got %s %.300q, %v; want %q", out.Result, out.Output, err, c.want)
			}
		})
	}
}

// TestHostileEchoReplies has hosts that send invalid replies or none. Each attempt must have a message of
// moderate length and finite metrics.
func TestHostileEchoReplies(t *testing.T) {
	for _, c := range []struct {
		name, config string
		timeout      time.Duration
		echo         func(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error)
		want         string
	}{
		{"a long error", `{"count":20}`, time.Minute, func(context.Context, wasm.EchoRequest) (wasm.EchoReply, error) {
			return wasm.EchoReply{}, fmt.Errorf("%s: %w", strings.Repeat("no ", 100_000), syscall.EHOSTUNREACH)
		}, "20 of 20 echo requests had no reply (100 %)"},
		{"times that cannot be", `{"count":2,"latency":{"warn":"1ms"}}`, time.Minute, func(context.Context, wasm.EchoRequest) (wasm.EchoReply, error) {
			return wasm.EchoReply{HopLimit: -1, RTT: -time.Hour, Setup: 1 << 62}, nil
		}, "2 of 2 replies from 127.0.0.1"},
		{"silence", `{"count":20}`, 6 * time.Second, func(ctx context.Context, _ wasm.EchoRequest) (wasm.EchoReply, error) {
			<-ctx.Done()
			return wasm.EchoReply{}, ctx.Err()
		}, "20 of 20 echo requests had no reply (100 %)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, err := wasm.New(wasm.Config{CacheDir: cache, Echo: c.echo})
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			loaded, err := host.Load(t.Context(), found(t, "icmp"))
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			target := probe.Target{Host: "127.0.0.1"}
			h, err := loaded.Prepare([]byte(c.config), target)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			out, err := h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: c.timeout}})
			if err != nil || !strings.Contains(out.Output, c.want) || len(out.Output) > 1000 || len(out.Metrics) == 0 {
				t.Errorf("got %s %.300q, %d metrics, %v; want %q", out.Result, out.Output, len(out.Metrics), err, c.want)
			}
		})
	}
}

// listen starts a TCP server that calls serve with each connection.
func listen(t *testing.T, serve func(net.Conn)) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				a := asked{c, make(chan struct{})}
				go a.discard()
				serve(a)
			}()
		}
	}()
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}
