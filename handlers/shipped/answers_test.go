package shipped_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// attempt makes one attempt of a shipped plugin.
func attempt(t *testing.T, cfg wasm.Config, plugin, config string, target probe.Target, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	h := prepare(t, cfg, plugin, config, target)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: timeout}})
}

// prepare returns a shipped plugin with a config.
func prepare(t *testing.T, cfg wasm.Config, plugin, config string, target probe.Target) probe.Handler {
	t.Helper()
	cfg.CacheDir = cache
	host, err := wasm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	loaded, err := host.Load(t.Context(), found(t, plugin))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loaded.Close() })
	h, err := loaded.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantFailure(t *testing.T, out probe.Outcome, err error, reason probe.Reason, texts ...string) {
	t.Helper()
	if err != nil || out.Result != probe.Failure || out.Reason != reason {
		t.Errorf("got %s %q, reason %q, %v; want a failure %q", out.Result, out.Output, out.Reason, err, reason)
	}
	for _, text := range texts {
		if !strings.Contains(out.Output, text) {
			t.Errorf("got %q, want %q in it", out.Output, text)
		}
	}
}

// Reported as blackbox_exporter 203, 913.
func TestExpectShowsLastLineAtDeadline(t *testing.T) {
	for _, line := range []string{"554 blacklisted\r\n", "554 blacklisted"} {
		target := listen(t, says(line))
		out, err := attempt(t, wasm.Config{}, "expect", `{"queryResponse":[{"expect":"^220 "}]}`, target, 300*time.Millisecond)
		wantFailure(t, out, err, probe.ReasonDeadline, `"554 blacklisted"`, `"^220 "`, "the deadline of 300ms has passed")
	}
}

// truncating starts a name server whose answers over UDP are truncated, without records. serve is its TCP server.
func truncating(t *testing.T, serve func(net.Conn)) probe.Target {
	t.Helper()
	target := listen(t, serve)
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: target.Port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := socket.ReadFromUDP(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response, m.Truncated = true, true
			if packed, err := m.Pack(); err == nil {
				_, _ = socket.WriteToUDP(packed, from)
			}
		}
	}()
	return target
}

// overTCP returns a TCP server for one query, whose answer has the bits of flags set in its third byte.
func overTCP(t *testing.T, flags byte) func(net.Conn) {
	return func(c net.Conn) {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		packed := reply(t, message)
		packed[2] |= flags
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	}
}

// Reported as blackbox_exporter 1258.
func TestTruncatedAnswerIsAskedOverTCP(t *testing.T) {
	const config = `{"queryName":"shop.test","queryType":"A"}`
	out, err := attempt(t, wasm.Config{}, "dns", config, truncating(t, overTCP(t, 0)), patience)
	if err != nil || out.Result != probe.Success || !strings.HasPrefix(out.Output, "NOERROR, 2 records") {
		t.Errorf("got %s %q, %v", out.Result, out.Output, err)
	}
	out, err = attempt(t, wasm.Config{}, "dns", config, truncating(t, overTCP(t, 2)), patience)
	wantFailure(t, out, err, probe.ReasonBody, "the answer over UDP is truncated, and over TCP: the answer over TCP is truncated")
	out, err = attempt(t, wasm.Config{}, "dns", config, truncating(t, says("")), 500*time.Millisecond)
	wantFailure(t, out, err, probe.ReasonDeadline, "the answer over UDP is truncated, and over TCP no answer came; the deadline of 500ms has passed")

	refusing := wasm.Config{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == "tcp" {
			addr = closedAddr(t)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	out, err = attempt(t, refusing, "dns", config, truncating(t, says("")), patience)
	wantFailure(t, out, err, probe.ReasonConnectRefused, "the answer over UDP is truncated, and over TCP: ", "connection refused")
}

// askedFrom starts a name server that answers from another socket than the one that is asked, unless right is set. It
// returns its target and the other address.
func askedFrom(t *testing.T, right *atomic.Bool) (target probe.Target, other string) {
	t.Helper()
	var conns [2]net.PacketConn
	for i := range conns {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns[i] = conn
	}
	go func() {
		for question := make([]byte, 512); ; {
			n, from, err := conns[0].ReadFrom(question)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(question[:n]) != nil {
				continue
			}
			m.Response = true
			packed, err := m.Pack()
			if err != nil {
				return
			}
			by := conns[1]
			if right.Load() {
				by = conns[0]
			}
			_, _ = by.WriteTo(packed, from)
		}
	}()
	return probe.Target{Host: "127.0.0.1", Port: conns[0].LocalAddr().(*net.UDPAddr).Port}, conns[1].LocalAddr().String()
}

// An answer of another address is ignored, and from the second attempt on it is named.
//
// Reported as blackbox_exporter 512.
func TestAnswerOfAnotherAddressIsIgnoredAndNamed(t *testing.T) {
	var right atomic.Bool
	target, other := askedFrom(t, &right)
	h := prepare(t, wasm.Config{}, "dns", `{"queryName":"shop.test","queryType":"A"}`, target)
	ask := func() (probe.Outcome, explain.Awaited) {
		t.Helper()
		const timeout = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		out, err := h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: timeout}})
		if err != nil {
			t.Fatal(err)
		}
		return out, explain.Read(out.Details).Awaited
	}
	var saw []string
	named := func() bool {
		return len(saw) > 1 && strings.HasSuffix(saw[len(saw)-1], "; ignored: datagrams from "+other)
	}
	for len(saw) < 2 || runtime.GOOS == "linux" && !named() && len(saw) < 10 { // a busy host may end an attempt before it reads
		out, awaited := ask()
		if saw = append(saw, awaited.Saw); out.Reason != probe.ReasonDeadline {
			t.Errorf("attempt %d: got %s %q, which waits for %+v", len(saw), out.Result, out.Output, awaited)
		}
	}
	if named() != (runtime.GOOS == "linux") || strings.Contains(saw[0], "ignored") {
		t.Errorf("the attempts saw %q", saw)
	}
	right.Store(true)
	if out, _ := ask(); out.Result != probe.Success {
		t.Errorf("an answer of the server: got %s %q", out.Result, out.Output)
	}
}

// closedAddr returns an address of a closed port.
func closedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRefusedDatagramHasReason(t *testing.T) {
	at := netip.MustParseAddrPort(closedAddr(t))
	out, err := attempt(t, wasm.Config{}, "dns", `{"queryName":"shop.test"}`, probe.Target{Host: "127.0.0.1", Port: int(at.Port())}, patience)
	wantFailure(t, out, err, probe.ReasonConnectRefused, "connection refused")
}

// serveWeb starts a web server, over TLS if secure is set, and returns it as a target.
func serveWeb(t *testing.T, secure bool, h http.HandlerFunc) (probe.Target, *httptest.Server) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return probe.Target{Host: "127.0.0.1", Port: s.Listener.Addr().(*net.TCPAddr).Port}, s
}

func TestFailureNamesRedirect(t *testing.T) {
	dead := closedAddr(t)
	target, _ := serveWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/next", http.StatusFound)
		case "/next":
			http.Redirect(w, r, "/missing?token=secret", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "/cut", http.StatusFound)
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/denied":
			http.Redirect(w, r, "http://"+dead+"/x?token=secret", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	own := fmt.Sprintf("http://127.0.0.1:%d", target.Port)
	for _, c := range []struct {
		path, want string
		reason     probe.Reason
	}{
		{"/", "HTTP status 404, want 2xx, after redirect 2 to " + own + "/missing", probe.ReasonHTTPStatus},
		{"/away", "http: redirect 1 to " + own + "/cut: the server closed the connection without a response", ""},
		{"/denied", "http: redirect 1 to http://" + dead + "/x: dial http " + dead + ": denied: ", probe.ReasonDenied},
		{"/none", "HTTP status 404, want 2xx", probe.ReasonHTTPStatus},
		{"/cut", "http: the server closed the connection without a response", ""},
	} {
		out, err := attempt(t, wasm.Config{}, "httpcheck", `{"url":"`+c.path+`"}`, target, patience)
		wantFailure(t, out, err, c.reason, c.want)
		if strings.Contains(out.Output, "secret") || strings.Contains(out.Output, "redirect") != strings.Contains(c.want, "redirect") {
			t.Errorf("%s: got %q", c.path, out.Output)
		}
	}
}

func TestCertificateAtFaultIsNamed(t *testing.T) {
	target, server := serveWeb(t, true, func(http.ResponseWriter, *http.Request) {})
	const unknown = `certificate signed by unknown authority: self-signed certificate "O=Acme Co"`
	for _, c := range []struct{ plugin, config string }{
		{"httpcheck", `{"url":"https:///"}`},
		{"expect", `{"tls":true}`},
		{"dns", `{"queryName":"a.test","transportProtocol":"tcp","dnsOverTls":true}`},
	} {
		out, err := attempt(t, wasm.Config{}, c.plugin, c.config, target, patience)
		wantFailure(t, out, err, probe.ReasonTLS, unknown)
	}
	ca, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if err != nil {
		t.Fatal(err)
	}
	out, err := attempt(t, wasm.Config{}, "expect", fmt.Sprintf(`{"tls":true,"tlsConfig":{"ca":%s,"serverName":"shop.test"}}`, ca), target, patience)
	wantFailure(t, out, err, probe.ReasonTLS, "not shop.test")
	target, ca = serveCertificate(t, certificate(t, time.Now().Add(100*time.Hour)))
	for _, which := range []string{"chain", "leaf"} {
		config := fmt.Sprintf(`{"tls":true,"tlsConfig":{"ca":%s},"certificateAge":{"fail":"200h","certificates":%q}}`, ca, which)
		out, err = attempt(t, wasm.Config{}, "expect", config, target, patience)
		wantFailure(t, out, err, probe.ReasonTLS, `certificate "CN=shop" ends in 4 days, less than 200h`)
	}
}

// serveCertificate starts a server with a certificate, and returns it as a target. ca is the certificate in PEM, as a
// JSON string.
func serveCertificate(t *testing.T, own tls.Certificate) (target probe.Target, ca []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	if err != nil {
		t.Fatal(err)
	}
	return probe.Target{Host: "127.0.0.1", Port: s.Listener.Addr().(*net.TCPAddr).Port}, ca
}

// certificate returns a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop"}, NotBefore: time.Unix(1, 0), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestUnusedCrossCertificateIsNoWarning has a server that sends an expired certificate which no verified chain
// needs.
//
// Reported as blackbox_exporter 340, 637, 1047; uptime-kuma 3323, 3982.
func TestUnusedCrossCertificateIsNoWarning(t *testing.T) {
	own := certificate(t, time.Now().Add(1000*time.Hour))
	own.Certificate = append(own.Certificate, certificate(t, time.Unix(2, 0)).Certificate[0])
	target, ca := serveCertificate(t, own)
	out, err := attempt(t, wasm.Config{}, "httpcheck", fmt.Sprintf(`{"url":"https:///","tlsConfig":{"ca":%s},"certificateAge":{"warn":"720h"}}`, ca), target, patience)
	if err != nil || out.Result != probe.Success {
		t.Errorf("got %s %q, %v", out.Result, out.Output, err)
	}
}

// TestDeadIPv6FallsBackToIPv4 has a name with a dead address of IPv6 and a live one of IPv4.
//
// Reported as blackbox_exporter 818, 819.
func TestDeadIPv6FallsBackToIPv4(t *testing.T) {
	target, _ := serveWeb(t, false, func(http.ResponseWriter, *http.Request) {})
	target.Host = "shop.test"
	for _, hangs := range []bool{false, true} {
		cfg := wasm.Config{
			LookupIP: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.7")}, nil
			},
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch at := netip.MustParseAddrPort(addr); {
				case at.Addr().Is4():
					return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", at.Port()))
				case hangs:
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, fmt.Errorf("dial %s: no route", addr)
			},
		}
		timeout := patience
		if hangs {
			timeout = 2 * time.Second
		}
		for config, want := range map[string]probe.Result{
			`{"url":"/"}`: probe.Success,
			`{"url":"/","preferredIpProtocol":"ip4"}`: probe.Success,
			`{"url":"/","ipProtocolFallback":false}`:  probe.Failure,
		} {
			out, err := attempt(t, cfg, "httpcheck", config, target, timeout)
			if err != nil || out.Result != want {
				t.Errorf("%s: got %s %q, %v; want %s", config, out.Result, out.Output, err, want)
			}
		}
	}
}

// TestNameOnLoopback has a target whose name leads to loopback.
func TestNameOnLoopback(t *testing.T) {
	target := listen(t, says("220 hello\r\n"))
	target.Host = "own.test"
	cfg := wasm.Config{LookupIP: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}
	const config = `{"queryResponse":[{"expect":"^220 "}]}`
	if out, err := attempt(t, cfg, "expect", config, target, patience); probe.ReasonOf(err) != probe.ReasonDenied || !strings.Contains(err.Error(), "127.0.0.1 is a loopback address") {
		t.Errorf("got %+v, %v; want an error", out, err)
	}
	pinging := cfg
	pinging.Echo = func(_ context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
		t.Errorf("sent %+v", r)
		return wasm.EchoReply{}, nil
	}
	if out, err := attempt(t, pinging, "icmp", "{}", target, patience); probe.ReasonOf(err) != probe.ReasonDenied {
		t.Errorf("icmp: got %+v, %v; want an error", out, err)
	}
	host, err := wasm.New(wasm.Config{CacheDir: cache, LookupIP: cfg.LookupIP})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	loaded, err := host.Load(t.Context(), found(t, "expect"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := loaded.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	ctx := netns.WithOwnNames(t.Context(), func(host string) bool { return host == "own.test" })
	if out, err := h.Probe(ctx, probe.Request{Target: target}); err != nil || out.Result != probe.Success {
		t.Errorf("got %s %q, %v", out.Result, out.Output, err)
	}
}
