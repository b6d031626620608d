package grpcprobe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crypto/tls"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/encoding"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestBareRequestMatchesGRPC checks that a server cannot distinguish the requests of both implementations.
func TestBareRequestMatchesGRPC(t *testing.T) {
	certificates := certificatesFor(t)
	compare := func(t *testing.T, cfg grpcprobe.Config, action grpcprobe.Action, timeout time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := script{answer: serving}
			if action.TLS {
				s.tls = &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}}
			}
			bare := attemptAt(t, s, cfg, action, timeout, 0)
			grpc := attemptAt(t, s, cfg, action, timeout, probe.CompatGRPCLibrary)
			if diff := cmp.Diff(grpc, bare, cmpopts.IgnoreUnexported(attempted{})); diff != "" {
				t.Errorf("grpc-go, and bare:\n%s", diff)
			}
			if bare.Result != probe.Success || bare.Conns != 1 || len(bare.Request.Fields) < 8 || bare.Request.GoAway == "" ||
				(bare.Request.Hello != "") != action.TLS {
				t.Errorf("got %+v", bare)
			}
		})
	}
	for name, action := range map[string]grpcprobe.Action{
		"server as a whole": {Host: "10.0.0.1", Port: 80},
		"service":           {Host: "10.0.0.1", Port: 80, Service: "shop.Cart"},
		"longest service":   {Host: "10.0.0.1", Port: 80, Service: strings.Repeat("s", 512)},
		"too long service":  {Host: "10.0.0.1", Port: 80, Service: strings.Repeat("s", 513)},
		"service in UTF-8":  {Host: "10.0.0.1", Port: 80, Service: "Käse"},
		"name":              {Host: "web.example", Port: 80},
		"long name":         {Host: strings.Repeat("web.", 60) + "example", Port: 80},
		"strange name":      {Host: "we%b~(x)", Port: 80},
		"IPv6":              {Host: "2001:db8::1", Port: 65535},
		"IPv6 zone":         {Host: "fe80::1%eth0", Port: 80},
		"TLS":               {Host: "web.example", Port: 443, TLS: true},
		"TLS to an address": {Host: "10.0.0.1", Port: 443, TLS: true},
	} {
		t.Run(name, func(t *testing.T) { compare(t, grpcprobe.Config{}, action, time.Second) })
	}
	t.Run("user agents", func(t *testing.T) {
		for _, agent := range []string{"agent/1", strings.Repeat("a", 127), strings.Repeat("a", 1000), "ägent"} {
			compare(t, grpcprobe.Config{UserAgent: agent}, grpcprobe.Action{Host: "10.0.0.1", Port: 80}, time.Second)
		}
	})
	t.Run("timeouts", func(t *testing.T) {
		for _, timeout := range []time.Duration{
			1, 99_999_999, 100_000_000, 100_000_001, time.Second, 99_999_999*time.Microsecond + 1, 100 * time.Second,
			99_999_999 * time.Millisecond, 99_999_999*time.Millisecond + 1, 1e8 * time.Second, 1e8*time.Second - 1, 1<<63 - 1,
		} {
			compare(t, grpcprobe.Config{}, grpcprobe.Action{Host: "10.0.0.1", Port: 80}, timeout)
		}
	})
	t.Run("compressor", func(t *testing.T) {
		encoding.RegisterCompressor(gzip{})
		compare(t, grpcprobe.Config{}, grpcprobe.Action{Host: "10.0.0.1", Port: 80}, time.Second)
	})
}

// gzip is a registered compressor that is never used.
type gzip struct{}

func (gzip) Name() string                               { return "gzip" }
func (gzip) Compress(io.Writer) (io.WriteCloser, error) { return nil, errors.ErrUnsupported }
func (gzip) Decompress(io.Reader) (io.Reader, error)    { return nil, errors.ErrUnsupported }

var (
	headers   = block(":status", "200", "content-type", "application/grpc")
	isServing = []byte{0, 0, 0, 0, 2, 8, 1}
	statusOK  = block("grpc-status", "0", "grpc-message", "")
	serving   = answerOf(headers, isServing, statusOK)
)

// answerOf returns the frames of an answer.
func answerOf(headers, message, trailers []byte) []byte {
	return frames(func(f *http2.Framer) {
		writeHeaders(f, headers, false)
		_ = f.WriteData(1, false, message)
		writeHeaders(f, trailers, true)
	})
}

func writeHeaders(f *http2.Framer, block []byte, end bool) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: end})
}

// headersOnly returns the frames of an answer without a message.
func headersOnly(fields ...string) []byte {
	return frames(func(f *http2.Framer) { writeHeaders(f, block(fields...), true) })
}

// ending returns the frames of an answer with the message SERVING and the given trailers.
func ending(trailers ...string) []byte { return answerOf(headers, isServing, block(trailers...)) }

// saying returns the frames of an answer with the given message.
func saying(message ...byte) []byte { return answerOf(headers, message, statusOK) }

// setting returns the payload of a SETTINGS frame.
func setting(id http2.SettingID, value uint32) []byte {
	b := frames(func(f *http2.Framer) { _ = f.WriteSettings(http2.Setting{ID: id, Val: value}) })
	return b[9:]
}

func TestBareAnswersMatchGRPC(t *testing.T) {
	const ok, grpc = ":status", "application/grpc"
	status := func(code, message string) []byte {
		return headersOnly(ok, "200", "content-type", grpc, "grpc-status", code, "grpc-message", message)
	}
	before := func(write func(f *http2.Framer)) script {
		return script{answer: append(frames(write), serving...)}
	}
	for _, c := range []struct {
		name   string
		script script
		bare   bool // made without grpc-go
	}{
		{"SERVING", script{answer: serving}, true},
		{"UNKNOWN", script{answer: saying(0, 0, 0, 0, 0)}, true},
		{"NOT_SERVING", script{answer: saying(0, 0, 0, 0, 2, 8, 2)}, true},
		{"SERVICE_UNKNOWN", script{answer: saying(0, 0, 0, 0, 2, 8, 3)}, true},
		{"number without a name", script{answer: saying(0, 0, 0, 0, 3, 8, 0xff, 1)}, true},
		{"negative number", script{answer: saying(0, 0, 0, 0, 11, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)}, true},
		{"unknown field", script{answer: saying(0, 0, 0, 0, 6, 0x12, 2, 'x', 'y', 8, 1)}, true},
		{"field twice", script{answer: saying(0, 0, 0, 0, 4, 8, 2, 8, 1)}, true},
		{"message that is no protobuf", script{answer: saying(0, 0, 0, 0, 1, 8)}, false},
		{"message that is too short", script{answer: saying(0, 0, 0, 0, 2, 8)}, false},
		{"two messages", script{answer: saying(0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 2, 8, 1)}, false},
		{"compressed message", script{answer: saying(1, 0, 0, 0, 2, 8, 1)}, false},
		{"no message", script{answer: saying()}, false},
		{"huge message", script{answer: saying(append([]byte{0, 0, 0, 32, 4, 0x12, 0x80, 0x40}, make([]byte, 8192)...)...)}, false},
		{"message in parts", script{answer: frames(func(f *http2.Framer) {
			writeHeaders(f, headers, false)
			for i := range isServing {
				_ = f.WriteData(1, false, isServing[i:i+1])
				_ = f.WriteData(1, false, nil)
			}
			writeHeaders(f, statusOK, true)
		})}, true},
		{"padded message", script{answer: frames(func(f *http2.Framer) {
			writeHeaders(f, headers, false)
			_ = f.WriteDataPadded(1, false, isServing, make([]byte, 9))
			writeHeaders(f, statusOK, true)
		})}, false},
		{"message without trailers", script{answer: frames(func(f *http2.Framer) {
			writeHeaders(f, headers, false)
			_ = f.WriteData(1, true, isServing)
		})}, false},
		{"message without headers", script{answer: frames(func(f *http2.Framer) {
			_ = f.WriteData(1, false, isServing)
			writeHeaders(f, statusOK, true)
		})}, false},

		{"UNIMPLEMENTED", script{answer: status("12", "unknown service grpc.health.v1.Health")}, true},
		{"NOT_FOUND", script{answer: status("5", "unknown service")}, true},
		{"DEADLINE_EXCEEDED", script{answer: status("4", "late")}, true},
		{"UNAVAILABLE", script{answer: status("14", "going away")}, true},
		{"CANCELLED", script{answer: status("1", "")}, true},
		{"code without a name", script{answer: status("17", "x")}, true},
		{"code of many digits", script{answer: status("0000000000005", "x")}, false},
		{"code that is negative", script{answer: status("-1", "x")}, false},
		{"code that is no number", script{answer: status("five", "x")}, false},
		{"no code", script{answer: headersOnly(ok, "200", "content-type", grpc)}, false},
		{"OK without a message", script{answer: status("0", "")}, false},
		{"message of the status in UTF-8", script{answer: status("2", "K%C3%A4se 100%25")}, true},
		{"message of the status that is not UTF-8", script{answer: status("2", "%FF%00")}, true},
		{"message of the status with a percent sign", script{answer: status("2", "100%, or %zz")}, false},
		{"long message of the status", script{answer: status("2", strings.Repeat("x", 2000))}, true},
		{"very long message of the status", script{answer: status("2", strings.Repeat("x", 12000))}, false},
		{"details of the status", script{answer: headersOnly(ok, "200", "content-type", grpc, "grpc-status", "5", "grpc-status-details-bin", "CAUSAXg")}, false},
		{"metadata that is not base64", script{answer: headersOnly(ok, "200", "content-type", grpc, "grpc-status", "5", "x-bin", "?")}, false},
		{"metadata", script{answer: headersOnly(ok, "200", "content-type", grpc, "server", "x", "date", "now", "grpc-status", "5", "x-trace", "")}, true},
		{"status after a message", script{answer: ending("grpc-status", "13", "grpc-message", "broken")}, true},
		{"status after half a message", script{answer: answerOf(headers, []byte{0, 0}, block("grpc-status", "13"))}, false},
		{"trailers without a status", script{answer: ending("x", "y")}, false},
		{"trailers with :status", script{answer: ending(":status", "200", "grpc-status", "0")}, false},

		{"content type with a subtype", script{answer: answerOf(block(":status", "200", "content-type", grpc+"+proto"), isServing, statusOK)}, true},
		{"content type with a parameter", script{answer: answerOf(block(":status", "200", "content-type", grpc+";charset=utf-8"), isServing, statusOK)}, true},
		{"content type of gRPC-Web", script{answer: answerOf(block(":status", "200", "content-type", grpc+"-web"), isServing, statusOK)}, false},
		{"content type of HTML", script{answer: headersOnly(ok, "200", "content-type", "text/html")}, false},
		{"no content type", script{answer: headersOnly(ok, "200", "grpc-status", "5")}, false},
		{"encoding identity", script{answer: answerOf(block(":status", "200", "content-type", grpc, "grpc-encoding", "identity"), isServing, statusOK)}, true},
		{"encoding gzip", script{answer: answerOf(block(":status", "200", "content-type", grpc, "grpc-encoding", "gzip"), isServing, statusOK)}, false},
		{"404", script{answer: headersOnly(ok, "404", "content-type", "text/plain")}, false},
		{"503 of gRPC", script{answer: headersOnly(ok, "503", "content-type", grpc, "grpc-status", "14")}, false},
		{"100 before the answer", before(func(f *http2.Framer) { writeHeaders(f, block(ok, "100"), false) }), false},
		{"headers twice", before(func(f *http2.Framer) { writeHeaders(f, headers, false) }), false},
		{"header in upper case", script{answer: headersOnly(ok, "200", "content-type", grpc, "grpc-status", "5", "X-Y", "z")}, false},
		{"colon within a header", script{answer: headersOnly(ok, "200", "content-type", grpc, "grpc-status", "5", "x:y", "z")}, false},
		{"header with a line feed", script{answer: headersOnly(ok, "200", "content-type", grpc, "grpc-status", "5", "x-y", "a\nb")}, false},
		{"HPACK that is invalid", script{answer: frames(func(f *http2.Framer) { writeHeaders(f, []byte{0xff, 0xff, 0xff}, true) })}, false},
		{"HPACK that ends early", script{answer: frames(func(f *http2.Framer) { writeHeaders(f, append(bytes.Clone(headers), 0x40), false) })}, false},
		{"headers in two frames", script{answer: frames(func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers[:4]})
			_ = f.WriteContinuation(1, true, headers[4:])
			_ = f.WriteData(1, false, isServing)
			writeHeaders(f, statusOK, true)
		})}, false},

		{"ping", before(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) }), true},
		{"ping of 7 bytes", before(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7)) }), false},
		{"window update", before(func(f *http2.Framer) { _ = f.WriteWindowUpdate(0, 1<<20); _ = f.WriteWindowUpdate(1, 5) }), true},
		{"window update of nothing", before(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4)) }), false},
		{"settings again", before(func(f *http2.Framer) { _ = f.WriteSettings(); _ = f.WriteSettingsAck() }), true},
		{"settings with a bad length", before(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 7)) }), false},
		{"shutdown after the streams so far", before(func(f *http2.Framer) {
			_ = f.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
			_ = f.WriteGoAway(1, http2.ErrCodeNo, []byte("bye"))
		}), true},
		{"shutdown at once", before(func(f *http2.Framer) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) }), false},
		{"reset of the stream", before(func(f *http2.Framer) { _ = f.WriteRSTStream(1, http2.ErrCodeInternal) }), false},
		{"other stream", before(func(f *http2.Framer) { _ = f.WriteData(3, false, isServing) }), false},
		{"unknown frame", before(func(f *http2.Framer) { _ = f.WriteRawFrame(0x20, 0, 0, []byte("grease")) }), false},
		{"many pings", before(func(f *http2.Framer) {
			for range 1000 {
				_ = f.WritePing(false, [8]byte{})
			}
		}), false},

		{"all settings", script{answer: serving, settings: bytes.Join([][]byte{
			setting(1, 4096), setting(2, 0), setting(3, 1), setting(4, 65535), setting(5, 1<<24-1), setting(6, 8192), setting(0xff, 9),
		}, nil)}, true},
		{"no table of headers", script{answer: serving, settings: setting(1, 0)}, false},
		{"no stream allowed", script{answer: serving, settings: setting(3, 0)}, false},
		{"small window", script{answer: serving, settings: setting(4, 10)}, false},
		{"window of nothing", script{answer: serving, settings: setting(4, 0)}, false},
		{"window that is too large", script{answer: serving, settings: setting(4, 1<<31)}, false},
		{"small list of headers", script{answer: serving, settings: setting(6, 100)}, false},

		{"window update before the request", script{early: frames(func(f *http2.Framer) { _ = f.WriteWindowUpdate(0, 1<<20) }), answer: serving}, true},

		{"reset after a ping", script{
			early:  frames(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) }),
			answer: frames(func(f *http2.Framer) { _ = f.WriteRSTStream(1, http2.ErrCodeInternal) }),
		}, false},

		{"silence after the settings", script{}, true},
		{"silence after the headers", script{answer: frames(func(f *http2.Framer) { writeHeaders(f, headers, false) })}, true},
		{"silence within a frame", script{answer: serving[:len(serving)-1]}, true},
		{"end after the settings", script{closes: true}, false},
		{"end within a frame", script{answer: serving[:len(serving)-1], closes: true}, false},
		{"end after the answer", script{answer: serving, closes: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareAnswers(t, c.script, grpcprobe.Action{Host: "10.0.0.1", Port: 80}, c.bare)
		})
	}
}

func TestBareAnswersOverTLSMatchGRPC(t *testing.T) {
	certificates := certificatesFor(t)
	h2 := []string{"h2"}
	for _, c := range []struct {
		name string
		script
		bare bool
	}{
		{"TLS 1.3", script{answer: serving, tls: &tls.Config{NextProtos: h2}}, true},
		{"TLS 1.2", script{answer: serving, tls: &tls.Config{NextProtos: h2, MaxVersion: tls.VersionTLS12}}, true},
		{"TLS 1.1", script{answer: serving, tls: &tls.Config{NextProtos: h2, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}, false},
		{"no ALPN", script{answer: serving, tls: &tls.Config{}}, false},
		{"ALPN without h2", script{answer: serving, tls: &tls.Config{NextProtos: []string{"http/1.1"}}}, false},
		{"certificate of the client", script{answer: serving, tls: &tls.Config{NextProtos: h2, ClientAuth: tls.RequireAnyClientCert}}, false},
		{"no TLS", script{answer: serving}, false},
		{"reset of the stream", script{
			answer: frames(func(f *http2.Framer) { _ = f.WriteRSTStream(1, http2.ErrCodeCancel) }), tls: &tls.Config{NextProtos: h2},
		}, false},
		{"silence after the settings", script{tls: &tls.Config{NextProtos: h2}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.tls != nil {
				c.tls.Certificates = certificates
			}
			compareAnswers(t, c.script, grpcprobe.Action{Host: "10.0.0.1", Port: 443, TLS: true}, c.bare)
		})
	}
}

// certificatesFor returns the certificate of a test server.
func certificatesFor(t *testing.T) []tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	return s.TLS.Certificates
}

// compareAnswers compares an attempt and the requests that its server receives with an attempt of
// grpc-go. bare says whether the attempt must be made without grpc-go.
func compareAnswers(t *testing.T, s script, action grpcprobe.Action, bare bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		got := attemptAt(t, s, grpcprobe.Config{}, action, 3*time.Second, 0)
		want := attemptAt(t, s, grpcprobe.Config{}, action, 3*time.Second, probe.CompatGRPCLibrary)
		if got.channels == 0 != bare || want.channels != 1 {
			t.Errorf("%d channels of grpc-go, and %d with its switch; want bare: %t", got.channels, want.channels, bare)
		}
		// Whether grpc-go resets a stream before its GOAWAY depends on the scheduling of its goroutines.
		resets := cmpopts.IgnoreSliceElements(func(f http2.FrameType) bool { return f == http2.FrameRSTStream })
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(attempted{}), resets); diff != "" {
			t.Errorf("grpc-go, and bare:\n%s", diff)
		}
	})
}

// TestBareCancelledAttemptIsAnError cancels attempts after the server's settings. For the kubelet, an
// attempt is connected then.
func TestBareCancelledAttemptIsAnError(t *testing.T) {
	for name, s := range map[string]script{"before the answer": {}, "within the answer": {answer: serving[:20]}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, compat := range []probe.Compat{0, probe.CompatGRPCLibrary} {
					server := rawServer{script: s}
					h, err := grpcprobe.New(grpcprobe.Config{DialContext: server.dial, Compat: compat}).Bind(grpcprobe.Action{Host: "10.0.0.1", Port: 80})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer time.AfterFunc(time.Second, cancel).Stop()
					got, err := h.Probe(ctx, probe.Request{})
					if want := "rpc error: code = Canceled desc = context canceled"; got.Result != probe.Unknown || fmt.Sprint(err) != want {
						t.Errorf("got %v, error %v; want %s", got.Result, err, want)
					}
				}
			})
		})
	}
}

// FuzzBareAnswer compares the outcome, connections and requests of an attempt with an attempt of grpc-go.
func FuzzBareAnswer(f *testing.F) {
	for _, answer := range [][]byte{
		serving, saying(0, 0, 0, 0, 2, 8, 2), ending("grpc-status", "13", "grpc-message", "a%20b"),
		headersOnly(":status", "200", "content-type", "application/grpc", "grpc-status", "5"), headersOnly(":status", "404"),
		frames(func(f *http2.Framer) {
			_ = f.WriteSettingsAck()
			_ = f.WritePing(false, [8]byte{1})
			_ = f.WriteWindowUpdate(0, 5)
			_ = f.WriteGoAway(1, http2.ErrCodeNo, nil)
			_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
		}),
	} {
		f.Add([]byte(nil), answer, false)
		f.Add(setting(3, 100), answer, true)
	}
	f.Fuzz(func(t *testing.T, settings, answer []byte, closes bool) {
		if len(settings)+len(answer) > 32<<10 {
			return // larger inputs find nothing more
		}
		synctest.Test(t, func(t *testing.T) {
			s := script{settings: settings, answer: answer, closes: closes}
			action := grpcprobe.Action{Host: "10.0.0.1", Port: 80}
			bare := attemptAt(t, s, grpcprobe.Config{}, action, 100*time.Millisecond, 0)
			library := attemptAt(t, s, grpcprobe.Config{}, action, 100*time.Millisecond, probe.CompatGRPCLibrary)
			// The other frames that grpc-go sends depend on the scheduling of its goroutines.
			others := cmpopts.IgnoreFields(received{}, "Frames", "Acks", "Pongs", "GoAway")
			if diff := cmp.Diff(library, bare, cmpopts.IgnoreUnexported(attempted{}), others); diff != "" {
				t.Errorf("grpc-go, and bare:\n%s", diff)
			}
		})
	})
}

// TestConnectionThatIsNoSocketGoesToGRPC checks that grpc-go handles connections that are not kernel sockets,
// because they may need concurrent reads and writes.
func TestConnectionThatIsNoSocketGoesToGRPC(t *testing.T) {
	pipes := func(delay time.Duration) (cfg grpcprobe.Config, dials *int, closed *bool) {
		dials, closed = new(int), new(bool)
		server := rawServer{script: script{answer: serving}}
		cfg.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			*dials++
			time.Sleep(delay)
			conn, err := server.dial(ctx, network, address)
			return &pipe{Conn: conn, closed: closed}, err
		}
		return cfg, dials, closed
	}
	for _, c := range []struct {
		name   string
		delay  time.Duration
		result probe.Result
		output string
	}{
		{"in time", 0, probe.Success, "service healthy"},
		{"after the deadline", 2 * time.Second, probe.Failure, `timeout: failed to connect service "10.0.0.1:80" within 1s: context deadline exceeded`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, dials, closed := pipes(c.delay)
				h, err := grpcprobe.New(cfg).Bind(grpcprobe.Action{Host: "10.0.0.1", Port: 80})
				if err != nil {
					t.Fatal(err)
				}
				got, err := rig.Attempt(t, h, probe.Request{}, time.Second)
				rig.Want(t, got, err, c.result, c.output)
				synctest.Wait()
				if *dials != 1 || !*closed {
					t.Errorf("%d dials; closed: %t", *dials, *closed)
				}
			})
		})
	}
}

// pipe is a connection without the methods of a kernel socket.
type pipe struct {
	net.Conn
	closed *bool
}

func (p *pipe) Close() error {
	*p.closed = true
	return p.Conn.Close()
}
