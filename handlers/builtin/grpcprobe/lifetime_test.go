package grpcprobe_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"

	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestServerThatReadsNothingHoldsNothing checks that writes to a server that does not read end with the
// attempt.
func TestServerThatReadsNothingHoldsNothing(t *testing.T) {
	settings := frames(func(f *http2.Framer) { _ = f.WriteSettings() })
	pings := frames(func(f *http2.Framer) {
		for range 800 {
			_ = f.WritePing(false, [8]byte{1})
		}
	})
	s := httptest.NewTLSServer(http.NotFoundHandler())
	config := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}
	s.Close()
	for name, secure := range map[string]bool{"plaintext": false, "TLS": true} {
		for path, compat := range map[string]probe.Compat{"bare": 0, "grpc-go": probe.CompatGRPCLibrary} {
			for dial, with := range map[string]grpcprobe.Config{"own": {}, "embedder": {DialContext: rig.SmallBuffers}} {
				t.Run(name+"/"+path+"/"+dial, func(t *testing.T) {
					port := rig.Peer(t, func(conn net.Conn) {
						_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
						if secure {
							server := tls.Server(conn, config)
							_ = server.Handshake()
							conn = server
						}
						_, _ = conn.Write(settings)
						rig.Hold(t, conn, pings)
					})
					with.Compat = compat
					h, err := grpcprobe.New(with).Bind(grpcprobe.Action{Host: "127.0.0.1", Port: port, TLS: secure})
					if err != nil {
						t.Fatal(err)
					}
					rig.WantNoLeak(t, h)
				})
			}
		}
	}
}
