//go:build e2e

package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// mailServer is a mail server that supports commands up to STARTTLS.
type mailServer struct {
	greeting    string
	startTLS    bool   // offers STARTTLS
	smuggled    string // sent in clear text after the answer to STARTTLS
	certificate tls.Certificate
}

func (m mailServer) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(conn)
		}
	}()
	return l.Addr().String()
}

func (m mailServer) serve(conn net.Conn) {
	defer func() { conn.Close() }()
	fmt.Fprint(conn, m.greeting)
	secured := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch command, _, _ := strings.Cut(lines.Text(), " "); command {
		case "EHLO":
			fmt.Fprint(conn, "250-mail.example.com\r\n250-PIPELINING\r\n")
			if m.startTLS && !secured {
				fmt.Fprint(conn, "250-STARTTLS\r\n")
			}
			fmt.Fprint(conn, "250 8BITMIME\r\n")
		case "STARTTLS":
			fmt.Fprint(conn, "220 go ahead\r\n"+m.smuggled)
			conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{m.certificate}})
			lines, secured = bufio.NewScanner(conn), true
		case "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			fmt.Fprint(conn, "502 what\r\n")
		}
	}
}

// selfSigned returns a certificate for mail.example.com that expires after a time.
func selfSigned(t *testing.T, left time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "mail.example.com"},
		DNSNames:     []string{"mail.example.com"},
		NotBefore:    time.Now().Add(-1000 * time.Hour),
		NotAfter:     time.Now().Add(left),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestSMTP probes with a plugin in AssemblyScript.
func TestSMTP(t *testing.T) {
	const day, greeting = 24 * time.Hour, "220 mail.example.com ready\r\n"
	good := selfSigned(t, 100*day+time.Hour)
	for _, c := range []struct {
		name         string
		server       mailServer
		config       string
		result, text string
	}{
		{"a greeting", mailServer{greeting: greeting}, `{}`, "success", "mail.example.com ready"},
		{"a greeting of two lines", mailServer{greeting: "220-mail.example.com\r\n220 ready\r\n"}, `{}`, "success", "mail.example.com"},
		{"busy server", mailServer{greeting: "421 too many connections\r\n"}, `{}`,
			"failure", "greeting: the server says 421 too many connections"},
		{"server of another protocol", mailServer{greeting: "+OK POP3 ready\r\n"}, `{}`, "failure", "no reply of SMTP: +OK POP3 ready"},
		{"no STARTTLS", mailServer{greeting: greeting}, `{"startTLS":true}`, "failure", "does not offer STARTTLS"},
		{"STARTTLS", mailServer{greeting: greeting, startTLS: true, certificate: good}, `{"startTLS":true,"verify":"none"}`,
			"success", "secured with TLS 1.3, the certificate ends in 100 days"},
		{"certificate of an unknown authority", mailServer{greeting: greeting, startTLS: true, certificate: good},
			`{"startTLS":true,"serverName":"mail.example.com"}`, "failure", "certificate signed by unknown authority"},
		{"certificate that expires soon", mailServer{greeting: greeting, startTLS: true, certificate: selfSigned(t, 3*day+time.Hour)},
			`{"startTLS":true,"verify":"none"}`, "warning", "ends in 3 days"},
		{"expired certificate", mailServer{greeting: greeting, startTLS: true, certificate: selfSigned(t, -time.Hour)},
			`{"startTLS":true,"verify":"none"}`, "failure", "the certificate has ended"},
		{"an answer smuggled in before TLS", mailServer{greeting: greeting, startTLS: true, smuggled: "250 fine\r\n", certificate: good},
			`{"startTLS":true,"verify":"none"}`, "failure", "in clear text after STARTTLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "smtp", c.server.start(t), c.config)
			want(t, v, code, c.result, c.text)
		})
	}
	t.Run("connection refused", func(t *testing.T) {
		v, code := probePlugin(t, "smtp", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
}
