package httpprobe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// These tests compare attempts of the lean path with attempts that are made by net/http alone.

// answer is the result of an attempt.
type answer struct {
	Outcome probe.Outcome
	Err     string
	Sent    string // the request
}

// asked makes an attempt at a server that calls respond for each request. It runs in a bubble, so that an
// endless response takes no time.
func asked(t *testing.T, cfg httpprobe.Config, a httpprobe.Action, by func(probe.Handler) probe.Handler, respond func(net.Conn)) answer {
	t.Helper()
	var got answer
	synctest.Test(t, func(t *testing.T) {
		var sent bytes.Buffer
		cfg.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				sent.WriteString(network + " " + address + "\n" + requestFrom(there))
				respond(there)
			}()
			return here, nil
		}
		h, err := httpprobe.New(cfg).Bind(a)
		if err != nil {
			got.Err = err.Error()
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		got.Outcome, err = by(h).Probe(ctx, probe.Request{PodIP: "10.0.0.1"})
		if err != nil {
			got.Err = err.Error()
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the attempt took %v", took)
		}
		synctest.Wait()
		got.Sent = sent.String()
		// net/http names one of several invalid headers, in map order.
		got.Outcome.Output, _, _ = strings.Cut(got.Outcome.Output, " net/http: invalid header ")
	})
	return got
}

// requestFrom returns the bytes of one request.
func requestFrom(c net.Conn) string {
	var request []byte
	for buf := make([]byte, 1<<10); !bytes.HasSuffix(request, []byte("\r\n\r\n")); {
		n, err := c.Read(buf)
		request = append(request, buf[:n]...)
		if err != nil {
			break
		}
	}
	return string(request)
}

// sameAnswer checks that net/http and the lean path return the same outcome.
func sameAnswer(t *testing.T, cfg httpprobe.Config, a httpprobe.Action, respond func(net.Conn)) answer {
	t.Helper()
	got := asked(t, cfg, a, rig.Traced, respond)
	want := asked(t, cfg, a, rig.ByNetHTTP, respond)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.200q (-net/http +lean):\n%s", fmt.Sprint(a), diff)
	}
	return got
}

// writes returns a function that answers with several writes.
func writes(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		for _, p := range parts {
			if _, err := io.WriteString(c, p); err != nil {
				return
			}
		}
	}
}

// hangs is like writes, and then the server hangs.
func hangs(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		writes(parts...)(c)
		rig.Silent(c)
	}
}

func TestRequestMatchesNetHTTP(t *testing.T) {
	pick := func(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }
	paths := []string{
		"", "/", "healthz", "/healthz?a=b", "?x", "/p?", "/a b", "/a%20b", "/%zz", "/é", "/a%2Fb", "//x", "//evil/x", "/..", "/a;b", "/a?b c", "/a?b#c", "#f", "*", "/*",
		"http://u:p@evil/x", "a:b", "/\x7f", "/a\tb", "/" + strings.Repeat("long", 2000), "/a+b?c=d&e=%20", "/<>\"{}|\\^`", "/[x]", "/?é", "/a?\x01",
	}
	names := []string{
		"Accept", "User-Agent", "Host", "X-A", "x-b", "ACCEPT-ENCODING", "Authorization", "Cookie", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding", "Te", "Trailer",
		"Expect", "Range", "Bad Name", "", "X:Y", "Referer", "Keep-Alive", "Content-Type", "Proxy-Connection", "Pragma", "é",
	}
	values := []string{"", "a", "close", "keep-alive", "a, b", " x ", "x\ty", "é", "a\nb", "a\r\nX-C: d", "h:80", "[::1]:80", "shop.example.com", "a/b", "under_score", "\x00", "chunked", "3", strings.Repeat("v", 5000)}
	hosts := []string{"", "h", "127.0.0.1", "::1", "fd00::1", "::ffff:127.0.0.1", "fe80::1%eth0", "é", "h%41", "A.b-c_d", "no host"}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		a := httpprobe.Action{Host: pick(r, hosts), Port: 80, Path: pick(r, paths)}
		for range r.IntN(4) {
			if a.Header == nil {
				a.Header = make(http.Header)
			}
			name := pick(r, names)
			a.Header[name] = append(a.Header[name], pick(r, values))
		}
		// This response makes net/http continue, with the request that was already sent.
		response := "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok"
		if i%2 == 0 {
			response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		}
		sameAnswer(t, httpprobe.Config{}, a, writes(response))
	}
}

// responses are the beginnings of ordinary and unusual responses.
var responses = []string{
	"",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 \r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end",
	"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked \r\n\r\n2\r\nok\r\n00\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nA\r\n0123456789\r\n0\r\n\r\nmore",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000\r\nok",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nno colon\r\n\r\nok",
	"HTTP/1.1 200 OK\r\n: empty\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nX: é\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nA B: c\r\n\r\nok",
	"HTTP/1.1 200 OK\nX: y\n\nok",
	"HTTP/1.1 200 OK\r\nX: y\r\r\n\r\nok",
	"HTTP/1.1 204 No Content\r\n\r\nbody",
	"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nbody",
	"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\nbody",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 301 Moved\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 307 Found\r\nLocation:\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 201 Created\r\nLocation: /new\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
	"HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
	"HTTP/1.1 999 ?\r\nContent-Length: 2\r\n\r\nno",
	"HTTP/1.1 099 ?\r\nContent-Length: 2\r\n\r\nno",
	"HTTP/1.1 20 OK\r\n\r\n",
	"HTTP/1.1 2000 OK\r\n\r\n",
	"HTTP/1.1  200 OK\r\n\r\nok",
	"HTTP/1.1\t200 OK\r\n\r\nok",
	"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"http/1.1 200 OK\r\n\r\nok",
	"SSH-2.0-OpenSSH_9.9\r\n",
	"\r\n\r\n", "\n", "\x15\x03\x01\x00\x02\x02\x16",
	"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 10241\r\n\r\n" + strings.Repeat("x", probe.MaxOutput+1),
	"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("x", probe.MaxOutput),
	"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + strings.Repeat("x", probe.MaxOutput+9),
	"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", probe.MaxOutput+9),
	"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", probe.MaxOutput),
	"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", probe.MaxOutput-1),
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2800\r\n" + strings.Repeat("x", probe.MaxOutput) + "\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2800\r\n" + strings.Repeat("x", probe.MaxOutput) + "bad",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n27ff\r\n" + strings.Repeat("x", probe.MaxOutput-1) + "\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 4000) + "0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 5000) + "\r\nContent-Length: 10239\r\n\r\n" + strings.Repeat("y", probe.MaxOutput-1),
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20000) + "\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1000) + "Content-Length: 2\r\n\r\nok",
}

// cut returns the parts of text that end at a position, or every step bytes.
func cut(text string, at, step int) []string {
	if step <= 0 {
		at = min(at, len(text))
		return []string{text[:at], text[at:]}
	}
	var parts []string
	for len(text) > step {
		parts, text = append(parts, text[:step]), text[step:]
	}
	return append(parts, text)
}

func TestResponseMatchesNetHTTP(t *testing.T) {
	for _, text := range responses {
		for _, cfg := range []httpprobe.Config{{}, {ShowBody: true, Compat: probe.CompatBodyHangIsError, FollowNonLocalRedirects: true}} {
			for _, parts := range [][]string{{text}, cut(text, len(text)/2, 0), cut(text, 0, 7)} {
				sameAnswer(t, cfg, httpprobe.Action{Port: 80}, writes(parts...))
			}
			sameAnswer(t, cfg, httpprobe.Action{Port: 80}, hangs(text))
			sameAnswer(t, cfg, httpprobe.Action{Port: 80}, hangs(cut(text, max(0, len(text)-3), 0)[:1]...))
		}
	}
}

// FuzzResponse compares the outcome for any response with the outcome of net/http.
func FuzzResponse(f *testing.F) {
	for i, text := range responses {
		f.Add([]byte(text), uint16(i*7), uint8(i%3*5), i%2 == 0, i%5 == 0)
	}
	f.Fuzz(func(t *testing.T, response []byte, at uint16, step uint8, hang, show bool) {
		cfg := httpprobe.Config{ShowBody: show}
		if show {
			cfg.Compat = probe.CompatBodyHangIsError
		}
		respond := writes(cut(string(response), int(at), int(step))...)
		if hang {
			respond = hangs(cut(string(response), int(at), int(step))...)
		}
		sameAnswer(t, cfg, httpprobe.Action{Port: 80, Path: "/x"}, respond)
	})
}

// scripted is a connection without a peer that answers the first write.
type scripted struct {
	net.Conn
	read     func(p []byte) (int, error)
	writeErr error
	answers  chan struct{}
	close    sync.Once
}

func script(read func(p []byte) (int, error)) *scripted {
	return &scripted{read: read, answers: make(chan struct{})}
}

func (c *scripted) Read(p []byte) (int, error) {
	<-c.answers
	return c.read(p)
}

func (c *scripted) Write(p []byte) (int, error) {
	if c.writeErr != nil {
		return len(p) / 2, c.writeErr
	}
	c.close.Do(func() { close(c.answers) })
	return len(p), nil
}

func (c *scripted) Close() error {
	c.close.Do(func() { close(c.answers) })
	return nil
}

func (c *scripted) SetDeadline(time.Time) error { return nil }

// reads returns a read function that returns text, and then err.
func reads(text string, err error) func(p []byte) (int, error) {
	return func(p []byte) (int, error) {
		n := copy(p, text)
		text = text[n:]
		if n > 0 {
			return n, nil
		}
		return 0, err
	}
}

func TestConnectionErrorMatchesNetHTTP(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	broken := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		dial func(ctx context.Context) (net.Conn, error)
		want probe.Result
	}{
		"refused": {func(context.Context) (net.Conn, error) { return nil, rig.DialError("connect", syscall.ECONNREFUSED) }, probe.Failure},
		"denied": {func(context.Context) (net.Conn, error) {
			return nil, &probe.Error{Reason: probe.ReasonDenied, Err: errors.New("no")}
		}, probe.Failure},
		"no descriptor": {func(context.Context) (net.Conn, error) { return nil, rig.DialError("socket", syscall.EMFILE) }, probe.Unknown},
		"dial hangs":    {func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, probe.Failure},
		"dial times out": {func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}, probe.Failure},
		"write fails": {func(context.Context) (net.Conn, error) {
			c := script(func([]byte) (int, error) {
				time.Sleep(time.Millisecond) // once net/http has both errors, it may return either
				return 0, io.EOF
			})
			c.writeErr = syscall.EPIPE
			return c, nil
		}, probe.Failure},
		"reset before headers": {func(context.Context) (net.Conn, error) { return script(reads("", broken)), nil }, probe.Failure},
		"reset in headers":     {func(context.Context) (net.Conn, error) { return script(reads(ok[:20], broken)), nil }, probe.Failure},
		"reset in body":        {func(context.Context) (net.Conn, error) { return script(reads(ok[:len(ok)-1], broken)), nil }, probe.Failure},
		"reset after body":     {func(context.Context) (net.Conn, error) { return script(reads(ok, broken)), nil }, probe.Success},
		"deadline of the dialer": {func(context.Context) (net.Conn, error) {
			return script(reads(ok[:9], os.ErrDeadlineExceeded)), nil
		}, probe.Failure},
		"read without bytes": {func(context.Context) (net.Conn, error) {
			read, first := reads(ok, io.EOF), true
			return script(func(p []byte) (int, error) {
				if first {
					first = false
					return 0, nil
				}
				return read(p)
			}), nil
		}, probe.Success},
		"bytes with the end": {func(context.Context) (net.Conn, error) {
			return script(func(p []byte) (int, error) { return copy(p, ok[:len(ok)-2]), io.EOF }), nil
		}, probe.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(by func(probe.Handler) probe.Handler) (got answer) {
				synctest.Test(t, func(t *testing.T) {
					dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }
					h, err := httpprobe.New(httpprobe.Config{DialContext: dial}).Bind(httpprobe.Action{Host: "10.0.0.1", Port: 80})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if got.Outcome, err = by(h).Probe(ctx, probe.Request{}); err != nil {
						got.Err = err.Error()
					}
					time.Sleep(time.Millisecond) // a read may return after the attempt
				})
				return got
			}
			got, want := ask(rig.Traced), ask(rig.ByNetHTTP)
			if diff := cmp.Diff(want, got); diff != "" || got.Outcome.Result != c.want {
				t.Errorf("got %v, want %v (-net/http +lean):\n%s", got.Outcome.Result, c.want, diff)
			}
		})
	}
}

func TestCancellationMatchesNetHTTP(t *testing.T) {
	for name, sent := range map[string]string{"headers": "HTTP/1.1 200 OK\r\nX: ", "body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			ask := func(by func(probe.Handler) probe.Handler) (got answer) {
				synctest.Test(t, func(t *testing.T) {
					dial := func(context.Context, string, string) (net.Conn, error) {
						here, there := net.Pipe()
						go func() {
							requestFrom(there)
							hangs(sent)(there)
						}()
						return here, nil
					}
					h, err := httpprobe.New(httpprobe.Config{DialContext: dial}).Bind(httpprobe.Action{Host: "10.0.0.1", Port: 80})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(errors.New("the probe was removed")) })
					if got.Outcome, err = by(h).Probe(ctx, probe.Request{}); err == nil {
						t.Errorf("got %+v, want an error", got.Outcome)
					} else {
						got.Err = err.Error()
					}
				})
				return got
			}
			if diff := cmp.Diff(ask(rig.ByNetHTTP), ask(rig.Traced)); diff != "" {
				t.Errorf("(-net/http +lean):\n%s", diff)
			}
		})
	}
}

func TestOrdinaryResponseNeedsNoGoroutine(t *testing.T) {
	var during int
	dial := func(context.Context, string, string) (net.Conn, error) {
		read := reads("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", io.EOF)
		return script(func(p []byte) (int, error) {
			during = runtime.NumGoroutine()
			return read(p)
		}), nil
	}
	h, err := httpprobe.New(httpprobe.Config{DialContext: dial}).Bind(httpprobe.Action{Host: "10.0.0.1", Port: 80, Path: "/healthz"})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	allocations := testing.AllocsPerRun(100, func() {
		out, err := h.Probe(t.Context(), probe.Request{})
		rig.Want(t, out, err, probe.Success, "ok")
	})
	if during > before {
		t.Errorf("%d goroutines during the attempt, %d before", during, before)
	}
	// Including the allocations of the connection above and of its context. net/http makes about 80.
	if allocations > 20 {
		t.Errorf("%v allocations", allocations)
	}
}
