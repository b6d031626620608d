package httpprobe_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestServerThatReadsNothingHoldsNothing checks that writes to a server that does not read end with the
// attempt.
func TestServerThatReadsNothingHoldsNothing(t *testing.T) {
	var settings, pings bytes.Buffer
	_ = http2.NewFramer(&settings, nil).WriteSettings()
	for range 800 {
		_ = http2.NewFramer(&pings, nil).WritePing(false, [8]byte{1})
	}
	long := http.Header{"X-A": {strings.Repeat("long", 1<<20)}}
	for name, c := range map[string]struct {
		action   httpprobe.Action
		protocol string // negotiated by TLS
		first    []byte
		then     []byte
	}{
		"HTTP/2":               {httpprobe.Action{Scheme: "HTTPS"}, "h2", settings.Bytes(), pings.Bytes()},
		"HTTP/2 without TLS":   {httpprobe.Action{UnencryptedHTTP2: true}, "", settings.Bytes(), pings.Bytes()},
		"HTTP/2, long request": {httpprobe.Action{Scheme: "HTTPS", Header: long}, "h2", settings.Bytes(), nil},
		"HTTP/1.1":             {httpprobe.Action{Header: long}, "", nil, nil},
		"HTTP/1.1 with TLS":    {httpprobe.Action{Scheme: "HTTPS", Header: long}, "http/1.1", nil, nil},
	} {
		config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{c.protocol}}
		for path, by := range map[string]func(probe.Handler) probe.Handler{"lean": rig.Traced, "net-http": rig.ByNetHTTP} {
			for dial, with := range map[string]httpprobe.Config{"own": {}, "embedder": {DialContext: rig.SmallBuffers}} {
				t.Run(name+"/"+path+"/"+dial, func(t *testing.T) {
					c.action.Host, c.action.Port = "127.0.0.1", rig.Peer(t, func(conn net.Conn) {
						_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
						if c.protocol != "" {
							server := tls.Server(conn, config)
							_ = server.Handshake()
							conn = server
						}
						_, _ = conn.Write(c.first)
						rig.Hold(t, conn, c.then)
					})
					h, err := httpprobe.New(with).Bind(c.action)
					if err != nil {
						t.Fatal(err)
					}
					rig.WantNoLeak(t, by(h))
				})
			}
		}
	}
}
