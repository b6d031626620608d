package httpprobe_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// respond answers a request with the given fields. The server has already sent its settings.
type respond func(f *http2.Framer, fields []hpack.HeaderField)

// serveHTTP2 starts an HTTP/2 server with TLS. It answers a request after the client has acknowledged the
// settings. It sends a description of the frames of each connection to saw.
func serveHTTP2(t *testing.T, answer respond, saw chan<- string) (port int) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2"}}
	return rig.Peer(t, func(c net.Conn) {
		conn := tls.Server(c, config)
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err == nil {
			saw <- framesOf(conn, answer)
		}
	})
}

// framesOf describes the frames of a client, in order, until the client closes the connection.
func framesOf(conn net.Conn, answer respond) string {
	var saw strings.Builder
	var fields []hpack.HeaderField
	framer, decoder := http2.NewFramer(conn, conn), hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return saw.String()
		}
		h := frame.Header()
		fmt.Fprintf(&saw, "%v %d %d %d bytes", h.Type, h.Flags, h.StreamID, h.Length)
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			fields, err = decoder.DecodeFull(f.HeaderBlockFragment())
			fmt.Fprintf(&saw, " %v %q", err, inOrder(fields))
			_ = framer.WriteSettings()
		case *http2.SettingsFrame:
			_ = f.ForeachSetting(func(s http2.Setting) error { fmt.Fprint(&saw, " ", s); return nil })
			if f.IsAck() {
				go answer(framer, fields)
			}
		case *http2.WindowUpdateFrame:
			fmt.Fprint(&saw, " ", f.Increment)
		case *http2.RSTStreamFrame:
			fmt.Fprint(&saw, " ", f.ErrCode)
		}
		saw.WriteString("\n")
	}
}

// inOrder returns the pseudo-header fields in the order sent, and then the others sorted, because their
// order is random.
func inOrder(fields []hpack.HeaderField) (names []string) {
	pseudo := 0
	for _, f := range fields {
		names = append(names, f.Name+": "+f.Value)
		if f.IsPseudo() {
			pseudo = len(names)
		}
	}
	slices.Sort(names[pseudo:])
	return names
}

// writeAnswer writes headers and a body.
func writeAnswer(f *http2.Framer, body string, fields ...string) {
	writeHead(f, body == "", fields...)
	if body != "" {
		_ = f.WriteData(1, true, []byte(body))
	}
}

// writeHead writes headers. fields has alternating names and values.
func writeHead(f *http2.Framer, ends bool, fields ...string) {
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: ends})
}

func writeOK(f *http2.Framer, _ []hpack.HeaderField) { writeAnswer(f, "ok", ":status", "200") }

// sameOverHTTP2 checks that net/http and the lean path return the same outcome, and that the server sees the
// same frames.
func sameOverHTTP2(t *testing.T, a httpprobe.Action, timeout time.Duration, with respond) answer {
	t.Helper()
	saw := make(chan string, 2)
	a.Scheme, a.Host, a.Port = "HTTPS", "127.0.0.1", serveHTTP2(t, with, saw)
	h, err := httpprobe.New(httpprobe.Config{}).Bind(a)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(by func(probe.Handler) probe.Handler) (got answer) {
		if got.Outcome, err = rig.Attempt(t, by(h), probe.Request{}, timeout); err != nil {
			got.Err = err.Error()
		}
		got.Outcome.Details = "" // contains durations
		got.Sent = <-saw
		return got
	}
	got := ask(rig.Traced)
	if diff := cmp.Diff(ask(rig.ByNetHTTP), got); diff != "" {
		t.Errorf("(-net/http +lean):\n%s", diff)
	}
	return got
}

func TestHTTP2RequestMatchesNetHTTP(t *testing.T) {
	for name, a := range map[string]httpprobe.Action{
		"defaults":             {},
		"path":                 {Path: "/healthz?a=b&c=%20d"},
		"path without a slash": {Path: "healthz"},
		"query":                {Path: "?a"},
		"two slashes":          {Path: "//a//b"},
		"long path":            {Path: "/" + strings.Repeat("long", 800)},
		"longer path":          {Path: "/" + strings.Repeat("long", 3000)},
		"headers":              {Header: http.Header{"X-A": {"1", "2", ""}, "X-B": {"three, four"}, "Accept": {"text/html"}, "Authorization": {"Basic a"}}},
		"host":                 {Header: http.Header{"Host": {"example.com:8443"}}},
		"long host":            {Header: http.Header{"Host": {strings.Repeat("a", 1000)}}},
		"no defaults":          {Header: http.Header{"Accept": {""}, "User-Agent": {""}}},
		"two user agents":      {Header: http.Header{"User-Agent": {"a", "b"}}},
		"cookie":               {Header: http.Header{"Cookie": {"a=b; c=d", "e=f"}}},
		"proxy connection":     {Header: http.Header{"Proxy-Connection": {"close"}}},
		"connection":           {Header: http.Header{"Connection": {"close"}, "Te": {"trailers"}}},
		"letters that are not": {Header: http.Header{"X-A": {"ä"}}},
		"name of underscores":  {Header: http.Header{"X_a!": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := sameOverHTTP2(t, a, time.Minute, writeOK)
			if got.Outcome.Result != probe.Success || !strings.HasPrefix(got.Sent, "SETTINGS 0 0 24 bytes") || !strings.Contains(got.Sent, "SETTINGS 1 0") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestHTTP2AnswerMatchesNetHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		with respond
		want string // part of the output
	}{
		"500":     {func(f *http2.Framer, _ []hpack.HeaderField) { writeAnswer(f, "no", ":status", "500") }, "500"},
		"no body": {func(f *http2.Framer, _ []hpack.HeaderField) { writeAnswer(f, "", ":status", "204") }, ""},
		"4,000 bytes": {func(f *http2.Framer, _ []hpack.HeaderField) {
			writeAnswer(f, strings.Repeat("x", 4000), ":status", "200")
		}, "xxx"},
		"reset":      {func(f *http2.Framer, _ []hpack.HeaderField) { _ = f.WriteRSTStream(1, http2.ErrCodeInternal) }, "INTERNAL_ERROR"},
		"odd header": {func(f *http2.Framer, _ []hpack.HeaderField) { writeAnswer(f, "ok", ":status", "200", "trailer", "x") }, "ok"},
		"small window": {func(f *http2.Framer, _ []hpack.HeaderField) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2})
		}, "PROTOCOL_ERROR"},
		"two parts": {func(f *http2.Framer, _ []hpack.HeaderField) {
			writeHead(f, false, ":status", "200", "content-length", "4")
			_ = f.WriteData(1, false, []byte("bo"))
			_ = f.WritePing(false, [8]byte{1})
			_ = f.WriteData(1, true, []byte("dy"))
		}, "body"},
		"trailers": {func(f *http2.Framer, _ []hpack.HeaderField) {
			writeHead(f, false, ":status", "200")
			_ = f.WriteData(1, false, []byte("body"))
			writeHead(f, true, "x", "y")
		}, "body"},
		"window overflow": {func(f *http2.Framer, _ []hpack.HeaderField) {
			_ = f.WriteWindowUpdate(1, 1<<31-1)
			_ = f.WriteWindowUpdate(1, 1<<31-1)
		}, "FLOW_CONTROL_ERROR"},
		"early hints": {func(f *http2.Framer, fields []hpack.HeaderField) {
			writeHead(f, false, ":status", "103")
			writeOK(f, fields)
		}, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameOverHTTP2(t, httpprobe.Action{}, time.Minute, c.with); !strings.Contains(got.Outcome.Output, c.want) {
				t.Errorf("output %q, want %q", got.Outcome.Output, c.want)
			}
		})
	}
}

// TestHTTP2HangMatchesNetHTTP also checks that the server gets a reset of the stream at the deadline.
func TestHTTP2HangMatchesNetHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		with respond
		want string // part of the output
	}{
		"no answer": {func(*http2.Framer, []hpack.HeaderField) {}, "Client.Timeout exceeded while awaiting headers"},
		"headers alone": {func(f *http2.Framer, _ []hpack.HeaderField) { writeHead(f, false, ":status", "200") },
			"statuscode: 200, then failed to read the body: context deadline exceeded"},
		"half of a body": {func(f *http2.Framer, _ []hpack.HeaderField) {
			writeHead(f, false, ":status", "200", "content-length", "4")
			_ = f.WriteData(1, false, []byte("bo"))
		}, "statuscode: 200, then failed to read the body: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sameOverHTTP2(t, httpprobe.Action{}, 2*time.Second, c.with) // long enough for a handshake under qemu
			if !strings.Contains(got.Outcome.Output, c.want) || got.Outcome.Reason != probe.ReasonDeadline {
				t.Errorf("got %+v, want %q", got.Outcome, c.want)
			}
			if !strings.HasSuffix(got.Sent, "RST_STREAM 0 1 4 bytes CANCEL\n") {
				t.Errorf("the server saw\n%s", got.Sent)
			}
		})
	}
}

// TestHTTP2AttemptsAtOnceKeepTheirConnections checks that net/http, which shares the connections of a
// host between requests, does not give a resumed connection to another attempt.
func TestHTTP2AttemptsAtOnceKeepTheirConnections(t *testing.T) {
	const attempts = 20
	saw := make(chan string, attempts)
	port := serveHTTP2(t, func(f *http2.Framer, fields []hpack.HeaderField) {
		writeHead(f, false, ":status", "200")
		_ = f.WriteData(1, false, []byte(fields[2].Value))
		writeHead(f, true, "x", "y") // net/http must continue
	}, saw)
	handler := httpprobe.New(httpprobe.Config{})
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() {
			path := fmt.Sprintf("/%d", i)
			h, err := handler.Bind(httpprobe.Action{Scheme: "HTTPS", Host: "127.0.0.1", Port: port, Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := h.Probe(t.Context(), probe.Request{}); err != nil || got.Output != path {
				t.Errorf("%s: %+v, %v", path, got, err)
			}
		})
	}
	all.Wait()
}

func TestHTTP2RefusedRequestIsRepeated(t *testing.T) {
	var mu sync.Mutex
	refused := make(map[string]bool)
	saw := make(chan string, 2)
	port := serveHTTP2(t, func(f *http2.Framer, fields []hpack.HeaderField) {
		mu.Lock()
		again := refused[fields[2].Value]
		refused[fields[2].Value] = true
		mu.Unlock()
		if !again {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return
		}
		writeOK(f, fields)
	}, saw)
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Scheme: "HTTPS", Host: "127.0.0.1", Port: port})
	if err != nil {
		t.Fatal(err)
	}
	got, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
	rig.Want(t, got, err, probe.Success, "ok")
	for range 2 {
		if frames := <-saw; strings.Count(frames, "HEADERS") != 1 {
			t.Errorf("the server saw\n%s", frames)
		}
	}
}
