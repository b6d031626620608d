package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var secure = get{path: "/", scheme: "HTTPS"}

// serve2 returns a server with HTTP/2 over TLS that follows the script after the request.
func serve2(steps ...any) server {
	s := speaks(steps...)
	s.tls = certified("h2")
	return s
}

func TestHTTPS(t *testing.T) {
	var table []situation
	add := func(name string, s server, differs ...string) {
		table = append(table, situation{name, s, secure, strings.Join(differs, "")})
	}
	with := func(change func(*tls.Config), protocols ...string) *tls.Config {
		c := certified(protocols...)
		change(c)
		return c
	}
	// The same responses as without TLS.
	for name, c := range map[string]*tls.Config{"no protocol": certified(), "http/1.1": certified("http/1.1"), "http/1.0": certified("http/1.0", "http/1.1")} {
		add("an answer by "+name, answers(whole).secured(c))
		add("a 500 by "+name, answers("HTTP/1.1 500 No\r\n\r\n").secured(c))
		add("closed by "+name, answers().secured(c))
		add("garbage by "+name, answers("garbage\r\n\r\n").secured(c))
		add("HTTP/2 by "+name, answers(settings()).secured(c))
		add("a long body by "+name, answers(ok+"\r\n"+strings.Repeat("x", 20<<10)).secured(c))
		add("an endless body by "+name, answers(ok+"\r\n", endless("x")).secured(c))
		add("a hang by "+name, answers(hang).secured(c), "Texts of HTTPS time-outs")
		add("a hang in the headers by "+name, answers(ok, hang).secured(c), "Texts of HTTPS time-outs")
		add("a hang in the body by "+name, answers(ok+"Content-Length: 5\r\n\r\nok", hang).secured(c))
		add("a reset by "+name, answers(reset).secured(c))
		add("a reset in the body by "+name, answers(ok+"Content-Length: 5\r\n\r\nok", 20*time.Millisecond, reset).secured(c))
		add("a redirect by "+name, each(to(302, "/there"), whole).secured(c))
		add("a redirect to itself by "+name, each(to(302, "https://127.0.0.1:{port}/there"), whole).secured(c))
		add("a redirect to http by "+name, server{tls: c, scripts: []script{{request, to(302, "http://127.0.0.1:{other}/")}}, other: []script{{request, whole}}})
		add("a redirect to http on the same port by "+name, each(to(302, "http://127.0.0.1:{port}/")).secured(c))
		add("chunks by "+name, answers(ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").secured(c))
		add("a cut body by "+name, answers(ok+"Content-Length: 5\r\n\r\nok").secured(c))
		add("a cut without close_notify by "+name, answers(ok+"Content-Length: 5\r\n\r\nok", cutOff).secured(c))
		add("no length, and no close_notify by "+name, answers(ok+"\r\nok", cutOff).secured(c))
		add("101 by "+name, answers("HTTP/1.1 101 Switching Protocols\r\n\r\n").secured(c))
		add("headers cut without close_notify by "+name, answers(ok, cutOff).secured(c))
	}
	for code := 200; code < 600; code += 7 {
		add(fmt.Sprintf("status %d", code), answers(fmt.Sprintf("HTTP/1.1 %d X\r\n%s", code, body2)).secured(certified("http/1.1")))
	}
	// Handshakes.
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		name := tls.VersionName(version)
		add("only "+name, answers(whole).secured(with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version })))
		add("only "+name+" and h2", serve2Whole(with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }, "h2")))
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		for kind, certificate := range map[string]tls.Certificate{"ECDSA": ecdsaCertificate(), "RSA": certificate(rsaKey(), nil)} {
			add("only "+suite.Name+" with "+kind, answers(whole).secured(&tls.Config{
				Certificates: []tls.Certificate{certificate}, MaxVersion: tls.VersionTLS12, MinVersion: tls.VersionTLS10, CipherSuites: []uint16{suite.ID},
			}))
		}
	}
	for _, curve := range []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519, tls.X25519MLKEM768} {
		add(fmt.Sprintf("only %v", curve), answers(whole).secured(with(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{curve} })))
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]tls.Certificate{
		"expired":          certificate(ecdsaKey(), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":    certificate(ecdsaKey(), func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }),
		"of another name":  certificate(ecdsaKey(), func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"example.com"}, nil }),
		"without a name":   certificate(ecdsaKey(), func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }),
		"of an authority":  certificate(ecdsaKey(), func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }),
		"for clients":      certificate(ecdsaKey(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
		"of 1,000 names":   certificate(ecdsaKey(), func(c *x509.Certificate) { c.DNSNames = strings.Fields(many("n%d.example.com ", 1000)) }),
		"with RSA":         certificate(rsaKey(), nil),
		"with RSA of 1024": certificate(weak, nil),
		"with P-384":       certificate(p384, nil),
		"with Ed25519":     certificate(ed25519Key(), nil),
		"that is garbage":  {Certificate: [][]byte{[]byte("garbage")}, PrivateKey: ecdsaKey()},
		"that is empty":    {Certificate: [][]byte{{}}, PrivateKey: ecdsaKey()},
		"and garbage":      {Certificate: [][]byte{ecdsaCertificate().Certificate[0], []byte("garbage")}, PrivateKey: ecdsaKey()},
		"twice":            {Certificate: [][]byte{ecdsaCertificate().Certificate[0], ecdsaCertificate().Certificate[0]}, PrivateKey: ecdsaKey()},
		"of another key":   {Certificate: certificate(p384, nil).Certificate, PrivateKey: ecdsaKey()},
	} {
		add("certificate "+name, answers(whole).secured(&tls.Config{Certificates: []tls.Certificate{c}}))
		add("certificate "+name+" with TLS 1.2", answers(whole).secured(&tls.Config{Certificates: []tls.Certificate{c}, MaxVersion: tls.VersionTLS12}))
	}
	for _, auth := range []tls.ClientAuthType{tls.RequestClientCert, tls.RequireAnyClientCert, tls.RequireAndVerifyClientCert} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			add(fmt.Sprintf("%v with %s", auth, tls.VersionName(version)), answers(whole).secured(with(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = auth, version })))
		}
	}
	add("no certificate", answers(whole).secured(&tls.Config{}))
	add("no protocol in common", answers(whole).secured(certified("foo")))
	add("no tickets", answers(whole).secured(with(func(c *tls.Config) { c.SessionTicketsDisabled = true })))
	add("an unknown name", answers(whole).secured(with(func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, fmt.Errorf("unknown") }
		c.Certificates = nil
	})))
	// Peers that do not speak TLS.
	for name, steps := range map[string]script{
		"HTTP/1.1 400":          {request, "HTTP/1.1 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"},
		"HTTP/1.0 400":          {request, "HTTP/1.0 400 Bad Request\r\n\r\n"},
		"HTTP/2":                {request, settings()},
		"SMTP":                  {"220 smtp ESMTP\r\n"},
		"garbage":               {request, "garbage and more garbage"},
		"zeros":                 {request, strings.Repeat("\x00", 100)},
		"one byte":              {request, "\x16"},
		"one byte and a hang":   {request, "\x16", hang},
		"five bytes":            {request, "\x16\x03\x03\x00\x10", hang},
		"nothing":               {request},
		"a close":               {},
		"a reset":               {request, reset},
		"a hang":                {request, hang},
		"a hang from the start": {hang},
		"its own hello":         {request, echoed},
		"endless garbage":       {request, endless("garbage")},
		"endless zeros":         {request, endless("\x00")},
		"endless empty records": {request, endless("\x16\x03\x03\x00\x00")},
		"endless warnings":      {request, endless("\x15\x03\x03\x00\x02\x01\x5a")},
		"endless handshake":     {request, endless("\x16\x03\x03\x40\x00" + strings.Repeat("\x02", 16384))},
		"a record of 64 KB":     {request, "\x16\x03\x03\xff\xff" + strings.Repeat("\x00", 65535)},
		"a record of SSL 3":     {request, "\x16\x03\x00\x00\x04\x0e\x00\x00\x00"},
		"a record of SSL 2":     {request, "\x80\x2e\x01\x00\x02"},
		"application data":      {request, "\x17\x03\x03\x00\x05hello"},
		"a change of ciphers":   {request, "\x14\x03\x03\x00\x01\x01"},
		"an unknown record":     {request, "\x63\x03\x03\x00\x01\x01"},
		"an unknown handshake":  {request, "\x16\x03\x03\x00\x04\x63\x00\x00\x00"},
		"a hello done":          {request, "\x16\x03\x03\x00\x04\x0e\x00\x00\x00"},
		"a short hello":         {request, "\x16\x03\x03\x00\x04\x02\x00\x00\x00"},
		"a hello of 16 MB":      {request, "\x16\x03\x03\x00\x04\x02\xff\xff\xff", hang},
	} {
		differs := ""
		if begins(steps...).hangs() {
			differs = "Texts of HTTPS time-outs"
		} else if name == "a close" || name == "a reset" || name == "SMTP" {
			differs = "early close"
		}
		add("peer sends "+name, begins(steps...), differs)
	}
	for alert := range 256 {
		for _, level := range []byte{1, 2} {
			if level == 1 && alert%10 != 0 {
				continue
			}
			add(fmt.Sprintf("alert %d of level %d", alert, level), begins(request, string([]byte{0x15, 3, 3, 0, 2, level, byte(alert)})))
		}
	}
	table = append(table,
		situation{"plain probe of TLS", answers(whole).secured(certified()), root, ""},
		situation{"refused", server{}, get{path: "/", scheme: "HTTPS", port: intstr.FromInt(9)}, ""},
		situation{"full backlog", server{full: true, scripts: []script{{}}}, timed{secure}, "Texts of HTTPS time-outs"},
		situation{"a name", answers(whole).secured(certified()), get{path: "/", scheme: "HTTPS", host: "localhost"}, ""},
		situation{"a Host header", answers(whole).secured(certified()), get{path: "/", scheme: "HTTPS", headers: []string{"Host", "example.com"}}, ""},
		situation{"headers", answers(whole).secured(certified()), get{path: "/a?b", scheme: "HTTPS", headers: []string{"X", "y", "x", "z", "Accept", "", "User-Agent", "me", "Connection", "keep-alive"}}, ""},
		situation{"scheme in lower case", answers(whole).secured(certified()), get{path: "/", scheme: "https"}, ""},
		situation{"IPv6", server{address: "::1", tls: certified(), scripts: []script{{request, whole}}}, get{path: "/", scheme: "HTTPS", podIP: "::1"}, ""},
		situation{"a redirect from http", server{scripts: []script{{request, to(302, "https://127.0.0.1:{port}/")}, {request, "\x15\x03\x01\x00\x02\x02\x46"}}}, root, ""},
	)
	judgeAll(t, table)
}

// serve2Whole returns a server with HTTP/2 and the TLS config c that answers 200.
func serve2Whole(c *tls.Config) server {
	s := serve2(headers(":status", "200") + lastData("ok"))
	s.tls = c
	return s
}

// cutOff closes the connection without a TLS alert.
var cutOff act = func(c *served) error {
	_ = c.raw.CloseWrite()
	return net.ErrClosed
}

// echoed writes the received bytes.
var echoed act = func(c *served) error {
	c.mu.Lock()
	text := string(c.got)
	c.mu.Unlock()
	_, err := c.conn.Write([]byte(text))
	return err
}

func TestHTTPSCuts(t *testing.T) {
	// The handshakes of a server with this key all have the same length.
	fixed := &tls.Config{Certificates: []tls.Certificate{certificate(ed25519Key(), nil)}, SessionTicketsDisabled: true}
	old := fixed.Clone()
	old.MaxVersion = tls.VersionTLS12
	var table []situation
	for name, c := range map[string]*tls.Config{"TLS 1.3": fixed, "TLS 1.2": old} {
		for n := 0; n < 2000; n += 29 {
			for how, end := range map[string]act{"closed": cutOff, "reset": reset} {
				s := answers(whole).secured(c)
				s.cut, s.cutBy = n+1, end
				table = append(table, situation{fmt.Sprintf("%s %s after %d bytes", name, how, n+1), s, secure, ""})
			}
		}
		for n := 0; n < 1000; n += 333 {
			s := answers(whole).secured(c)
			s.cut, s.cutBy = n+1, hang
			table = append(table, situation{fmt.Sprintf("%s hangs after %d bytes", name, n+1), s, secure, "Texts of HTTPS time-outs"})
		}
	}
	judgeAll(t, table)
}

func TestHTTP2(t *testing.T) {
	var table []situation
	add := func(name string, steps ...any) {
		differs := ""
		if begins(steps...).hangs() {
			differs = "Texts of HTTPS time-outs"
		}
		table = append(table, situation{name, serve2(steps...), secure, differs})
	}
	for _, code := range []int{200, 201, 204, 299, 300, 301, 304, 400, 404, 500, 503, 599, 600, 999} {
		add(fmt.Sprintf("status %d", code), headers(":status", fmt.Sprint(code))+lastData("body"))
		add(fmt.Sprintf("status %d alone", code), trailers(":status", fmt.Sprint(code)))
	}
	for _, code := range []string{"", "0", "99", "100", "101", "103", "1000", "x", "-1", "+200", "2 0"} {
		add(fmt.Sprintf("status %q", code), headers(":status", code)+lastData("body"))
		add(fmt.Sprintf("status %q before another", code), headers(":status", code)+headers(":status", "200")+lastData("body"))
	}
	for name, text := range map[string]string{
		"a length":                 headers(":status", "200", "content-length", "4") + lastData("body"),
		"a length, too short":      headers(":status", "200", "content-length", "2") + lastData("body"),
		"a length, too long":       headers(":status", "200", "content-length", "9") + lastData("body"),
		"a bad length":             headers(":status", "200", "content-length", "x") + lastData("body"),
		"trailers":                 headers(":status", "200", "trailer", "x") + data("body") + trailers("x", "y"),
		"trailers with a status":   headers(":status", "200") + data("body") + trailers(":status", "500"),
		"a redirect to a host":     headers(":status", "302", "location", "https://example.invalid/") + lastData("body"),
		"a redirect without place": headers(":status", "302") + lastData("body"),
		"an upper case name":       headers(":status", "200", "X", "y") + lastData("body"),
		"connection":               headers(":status", "200", "connection", "close") + lastData("body"),
		"no status":                headers("x", "y") + lastData("body"),
		"a reset before":           resetStream(http2.ErrCodeInternal),
		"a reset after headers":    headers(":status", "200") + resetStream(http2.ErrCodeInternal),
		"a reset without an error": headers(":status", "200") + data("body") + resetStream(http2.ErrCodeNo),
		"GOAWAY":                   goAway(0, http2.ErrCodeInternal, "bye"),
		"GOAWAY of this stream":    goAway(1, http2.ErrCodeNo, "bye") + headers(":status", "200") + lastData("body"),
		"padding":                  headers(":status", "200") + frame(7, 0, 9, 1, "\x02body\x00\x00"),
		"PING":                     ping("12345678") + headers(":status", "200") + lastData("body"),
		"SETTINGS":                 settings(http2.Setting{ID: 3, Val: 1}) + headers(":status", "200") + lastData("body"),
		"PUSH_PROMISE":             frame(5, 5, 4, 1, "\x00\x00\x00\x02\x82"),
		"an unknown frame":         frame(3, 0x42, 0, 0, "abc") + headers(":status", "200") + lastData("body"),
		"data before headers":      data("body"),
		"data on stream 3":         frame(4, 0, 1, 3, "body"),
		"HTTP/1.1":                 whole,
		"garbage":                  "garbage and garbage",
		"nothing":                  "",
		"headers alone":            headers(":status", "200"),
		"a part of the body":       headers(":status", "200", "content-length", "9") + data("body"),
		"20 KB":                    headers(":status", "200") + data(strings.Repeat("x", 10<<10)) + lastData(strings.Repeat("x", 10<<10)),
		"20 KB of a 500":           headers(":status", "500") + data(strings.Repeat("x", 10<<10)) + lastData(strings.Repeat("x", 10<<10)),
	} {
		add(name, text)
		add(name+", and a hang", text, hang)
	}
	add("endless data", headers(":status", "200"), endless(data(strings.Repeat("x", 1000))))
	add("endless PINGs", endless(ping("12345678")), hang)
	for name, steps := range map[string]script{
		"HTTP/1.1 instead of settings": {preface, whole},
		"no settings":                  {preface, hang},
		"a close":                      {preface},
		"the answer before settings":   {preface, headers(":status", "200") + lastData("body")},
		"no streams":                   {preface, settings(http2.Setting{ID: 3, Val: 0}), hang},
		"a table of 0":                 {preface, settings(http2.Setting{ID: 1, Val: 0}) + acknowledged, call, headers(":status", "200") + lastData("body")},
	} {
		s := raw(steps...)
		s.tls = certified("h2")
		differs := ""
		if s.hangs() {
			differs = "Texts of HTTPS time-outs"
		}
		table = append(table, situation{name + " at first", s, secure, differs})
	}
	both := serve2Whole(certified("h2", "http/1.1"))
	table = append(table, situation{"both protocols", both, secure, ""},
		situation{"a path and headers", serve2Whole(certified("h2")), get{path: "/a%2fb?c#d", scheme: "HTTPS", headers: []string{"Host", "example.com", "X", "y", "X", "z", "Connection", "close", "TE", "trailers", "User-Agent", ""}}, ""})
	judgeAll(t, table)
}
