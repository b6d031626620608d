package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk/sdktest"
)

var suite = sdktest.NewSuite(check{})

func TestMain(m *testing.M) { suite.Main(m) }

// TestCases runs the cases natively, for coverage and for a debugger, and in the sandbox with
// the conformance checks, as prober plugin test does.
func TestCases(t *testing.T) { suite.Run(t) }

func attempt(t *testing.T, h probe.Preparer, config string, target probe.Target) probe.Outcome {
	t.Helper()
	out, err := sdktest.Attempt(t, h, config, target, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// health is a health service on the HTTP/2 of the standard library. It answers SERVING to calls
// with the token.
func health(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h := w.Header()
	h.Set("Content-Type", "application/grpc+proto")
	code, text := "0", ""
	switch {
	case err != nil || r.Method != http.MethodPost || r.URL.Path != "/grpc.health.v1.Health/Check" || r.Header.Get("TE") != "trailers":
		code, text = "3", fmt.Sprint(err, r.Method, r.URL, r.Header)
	case !strings.HasSuffix(r.Header.Get("Grpc-Timeout"), "m"):
		code, text = "3", "grpc-timeout "+r.Header.Get("Grpc-Timeout")
	case r.Header.Get("X-Token") != "open sesame" || len(r.Header.Get("X-Long")) != 20000:
		code, text = "16", "x-token%3A who are you?"
	case r.Host != "orders.internal":
		code, text = "3", r.Host
	case !bytes.Equal(body, []byte("\x00\x00\x00\x00\x06\n\x04shop")):
		code, text = "5", fmt.Sprintf("%x", body)
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", code)
	h.Set(http.TrailerPrefix+"Grpc-Message", text)
	if code == "0" {
		_, _ = w.Write([]byte("\x00\x00\x00\x00\x02\x08\x01"))
	}
}

// start starts the service, with or without TLS, and returns a config for it.
func start(t *testing.T, tls bool) (probe.Target, map[string]any) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(health))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	config := map[string]any{
		"service": "shop", "authority": "orders.internal",
		// longer than a frame, so that the headers continue in a second one
		"metadata": map[string]any{"x-token": "open sesame", "x-long": strings.Repeat("~", 20000)},
	}
	if tls {
		server.EnableHTTP2 = true
		server.StartTLS()
		config["tls"] = true
		config["ca"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	} else {
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
	}
	return probe.Target{Host: "127.0.0.1", Port: server.Listener.Addr().(*net.TCPAddr).Port}, config
}

// A real peer, with tables and flow control of its own.
func TestCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		tls    bool
		change map[string]any
		want   probe.Result
		output string
	}{
		{"in clear text", false, nil, probe.Success, `service "shop" is SERVING`},
		{"over TLS", true, nil, probe.Success, `service "shop" is SERVING`},
		{"over TLS that is not trusted", true, map[string]any{"ca": nil}, probe.Failure, "certificate"},
		{"over TLS, and nobody verifies", true, map[string]any{"ca": nil, "verify": "none"}, probe.Success, `service "shop" is SERVING`},
		{"without metadata", false, map[string]any{"metadata": nil}, probe.Failure, "fails with UNAUTHENTICATED: x-token: who are you?"},
		{"of another service", false, map[string]any{"service": "mail"}, probe.Failure, `service "mail" is not known`},
		{"with another authority", false, map[string]any{"authority": "mail.internal"}, probe.Failure, "INVALID_ARGUMENT: mail.internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, config := start(t, c.tls)
			for name, value := range c.change {
				if config[name] = value; value == nil {
					delete(config, name)
				}
			}
			doc, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			for kind, h := range suite.Handlers() {
				if got := attempt(t, h, string(doc), target); got.Result != c.want || !strings.Contains(got.Output, c.output) {
					t.Errorf("%s: got %v %q, want %v %q", kind, got.Result, got.Output, c.want, c.output)
				}
			}
		})
	}
}

func TestBadMetadata(t *testing.T) {
	for config, want := range map[string]string{
		`{"metadata":{"a":1}}`:                       "a: must be a string",
		`{"metadata":[]}`:                            "must be an object of strings",
		`{"metadata":{"a b":"x"}}`:                   `"a b" is not a valid name`,
		`{"metadata":{"te":"x"}}`:                    "te: the name belongs to gRPC",
		`{"metadata":{"a":"se\ncret"}}`:              "a: the value has more than printable ASCII",
		`{"metadata":{ "b" : "\u00e9", "a" : "b" }}`: "b: the value has more than printable ASCII",
	} {
		_, err := suite.Handlers()["native"].Prepare([]byte(config), probe.Target{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

// gone is a connection that the server has closed.
type gone struct{ net.Conn }

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A server may close the connection before its first frames are answered.
func TestCallReadsReasonOfClosedConnection(t *testing.T) {
	said := appendFrame(nil, frameSettings, 0, 0, nil)
	said = appendFrame(said, frameGoAway, 0, 0, []byte("\x00\x00\x00\x00\x00\x00\x00\x0bslow down"))
	tr := newTransport(gone{})
	tr.r = bufio.NewReader(bytes.NewReader(said))
	if _, err := tr.receive(); err == nil || err.Error() != `the server goes away: ENHANCE_YOUR_CALM, "slow down"` {
		t.Errorf("got %v", err)
	}
}

// FuzzReceive reads arbitrary bytes of a server, which must not make the plugin panic.
func FuzzReceive(f *testing.F) {
	headers := appendFrame(nil, frameHeaders, flagEndHeaders, stream, encode([]field{{":status", "200"}, {"content-type", "application/grpc"}}))
	trailers := appendFrame(nil, frameHeaders, flagEndHeaders|flagEndStream, stream, encode([]field{{"grpc-status", "0"}}))
	begin := appendFrame(nil, frameSettings, 0, 0, nil)
	data := appendFrame(nil, frameData, flagPadded, stream, []byte("\x01\x00\x00\x00\x00\x02\x08\x01\x00"))
	f.Add(bytes.Join([][]byte{begin, headers, data, trailers}, nil))
	f.Add(appendFrame(begin, frameGoAway, 0, 0, []byte("\x00\x00\x00\x00\x00\x00\x00\x0b")))
	f.Add(appendFrame(begin, frameHeaders, flagPadded|flagPriority, stream, []byte{9}))
	f.Fuzz(func(t *testing.T, sent []byte) {
		tr := newTransport(discard{})
		tr.r = bufio.NewReader(bytes.NewReader(sent))
		resp, err := tr.receive()
		if err != nil {
			return
		}
		if rep, err := resp.reply(); err == nil {
			judge(rep, "")
		}
	})
}

// discard is a connection that discards all writes.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
