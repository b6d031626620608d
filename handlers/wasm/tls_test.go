package wasm_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// secured returns the TLS configuration of a server for 127.0.0.1 and example.com, and its CA.
func secured(t testing.TB) (config *tls.Config, ca string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	cert := s.TLS.Certificates[0]
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"echo"}}, string(block)
}

// accept calls serve for each connection.
func accept(t testing.TB, serve func(net.Conn)) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return targetOf(l)
}

func TestGuestDialsTLS(t *testing.T) {
	config, _ := secured(t)
	target := accept(t, func(conn net.Conn) { _ = tls.Server(conn, config).Handshake() })
	p := load(t, host, "dialurl", plugin.Reset)
	dial := func(url string) probe.Outcome {
		got, err := attempt(t, bind(t, p, fmt.Sprintf(`{"url":%q}`, url), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, url := range []string{"tls://?verify=none&alpn=echo&serverName=example.com", fmt.Sprintf("tls://127.0.0.1:%d?verify=none&alpn=echo&serverName=example.com", target.Port)} {
		var info struct {
			Network string
			Timings map[string]float64
			TLS     struct {
				Version, Cipher, ALPN, ServerName string
				Peer                              []struct {
					Subject, Issuer, SHA256 string
					NotBefore, NotAfter     int64
					SANs                    []string
				}
			}
		}
		got := dial(url)
		if err := json.Unmarshal([]byte(got.Output), &info); err != nil {
			t.Fatal(got, err)
		}
		if info.Network != "tls" || info.TLS.Version != "TLS 1.3" || info.TLS.ALPN != "echo" || info.TLS.ServerName != "example.com" || info.Timings["tls"] <= 0 {
			t.Errorf("got %+v", info)
		}
		if len(info.TLS.Peer) != 1 || info.TLS.Peer[0].NotAfter < time.Now().Unix() || len(info.TLS.Peer[0].SHA256) != 64 || !strings.Contains(fmt.Sprint(info.TLS.Peer[0].SANs), "example.com 127.0.0.1") {
			t.Errorf("got %+v", info.TLS.Peer)
		}
	}
	for url, want := range map[string]string{
		"tls://":              "tls: failed to verify certificate",
		"tls://?verify=maybe": `tls: verify "maybe": want full or none`,
		"tls://?ciphers=all":  `tls: unknown option "ciphers"`,
	} {
		if got := dial(url); got.Result != probe.Failure || !strings.Contains(got.Output, want) {
			t.Errorf("%s: got %+v, want %q", url, got, want)
		}
	}
	if got := dial("tls://"); got.Reason != probe.ReasonTLS {
		t.Errorf("got %+v, want the reason tls", got)
	}
}

func TestTLSHandshakeWithSilentPeerEndsAtDeadline(t *testing.T) {
	target := blackHole(t)
	p := load(t, host, "dialurl", plugin.Reset)
	got, err := overrun(t, bind(t, p, `{"url":"tls://"}`, target), probe.Request{Target: target}, 100*time.Millisecond)
	if err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("got %+v, %v, want a time-out", got, err)
	}
}

func TestStartTLS(t *testing.T) {
	config, ca := secured(t)
	serve := func(greeting string) probe.Target {
		return accept(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, greeting)
			s := tls.Server(conn, config)
			line, err := bufio.NewReader(s).ReadString('\n')
			if err == nil {
				_, _ = io.WriteString(s, "secretly "+line[:len(line)-1])
			}
		})
	}
	p := load(t, host, "starttls", plugin.Reset)
	for _, c := range []struct {
		greeting string
		options  any
		result   probe.Result
		want     string
	}{
		{"S", map[string]any{"ca": ca}, probe.Success, "secretly hello"},
		{"S", map[string]any{"ca": ca, "serverName": "example.com"}, probe.Success, "secretly hello"},
		{"S", map[string]any{"verify": "none"}, probe.Success, "secretly hello"},
		{"S", map[string]any{"ca": ca, "serverName": "other"}, probe.Failure, "starttls: tls: failed to verify certificate: x509: certificate is valid for example.com"},
		{"S", map[string]any{"ca": "none"}, probe.Failure, "starttls: tls: ca: no certificate in PEM"},
		{"S", []int{}, probe.Failure, "starttls: options: "},
		{"Sinjected", map[string]any{"ca": ca}, probe.Failure, "starttls: 8 bytes came before TLS and were not read"},
	} {
		doc, err := json.Marshal(map[string]any{"tls": c.options})
		if err != nil {
			t.Fatal(err)
		}
		target := serve(c.greeting)
		got, err := attempt(t, bind(t, p, string(doc), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || got.Result != c.result || !strings.HasPrefix(got.Output, c.want) {
			t.Errorf("%s, %v: got %+v, %v, want %q", c.greeting, c.options, got, err, c.want)
		}
	}
}

func TestGoGuestStartsTLS(t *testing.T) {
	config, ca := secured(t)
	const wait = 20 * time.Millisecond // longer than a single wait of the SDK
	target := accept(t, func(conn net.Conn) {
		<-time.After(wait)
		_, _ = io.WriteString(conn, "ready")
		<-time.After(wait)
		s := tls.Server(conn, config)
		if line, err := bufio.NewReader(s).ReadString('\n'); err == nil {
			_, _ = io.WriteString(s, "secretly "+line[:len(line)-1])
			_ = s.Close()
		}
	})
	doc, err := json.Marshal(map[string]any{"do": "starttls", "ca": ca})
	if err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, bind(t, goGuest(t), string(doc), target), probe.Request{Target: target}, 5*time.Second)
	if want := "secretly hello from [example.com"; err != nil || !strings.HasPrefix(got.Output, want) {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
}

func TestGuestSendsDatagrams(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(append([]byte("re:"), buf[:n]...), from)
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	addr := l.LocalAddr().(*net.UDPAddr)
	target := probe.Target{Host: addr.IP.String(), Port: addr.Port}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"udp"}`, target), probe.Request{Target: target}, 5*time.Second)
	if want := "re:first re:sec r"; err != nil || got.Result != probe.Success || got.Output != want {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
}

func TestFailingDatagrams(t *testing.T) {
	addr := netip.MustParseAddrPort(deadAddr)
	target := probe.Target{Host: addr.Addr().String(), Port: int(addr.Port())}
	got, err := attempt(t, load(t, host, "udp", plugin.Reset), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Result != probe.Success || !strings.Contains(got.Output, "connection refused") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTLSOverUnixSocket(t *testing.T) {
	path := socketPath(t)
	web(t, func(s *httptest.Server) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		s.Listener.Close()
		s.Listener = l
		s.StartTLS()
		s.URL = "https://127.0.0.1:1"
	}, "")
	target := probe.Target{Unix: path}
	b := bind(t, load(t, host, "dialurl", plugin.Reset), `{"url":"tls://?verify=none&serverName=example.com"}`, target)
	got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Result != probe.Success || !strings.Contains(got.Output, `"sans":["example.com"`) {
		t.Errorf("got %+v, %v", got, err)
	}
}
