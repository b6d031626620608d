package httpprobe_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

func TestHTTPHangIsExplained(t *testing.T) {
	const took = `waiting for \d+ms; `
	drip := func(c net.Conn, head string, left time.Duration) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, err := io.WriteString(c, head)
		ticks := time.NewTicker(left)
		defer ticks.Stop()
		for err == nil {
			<-ticks.C
			_, err = io.WriteString(c, "x")
		}
	}
	for _, c := range []struct {
		name, scheme, pattern string
		serve                 func(c net.Conn)
	}{
		{"no answer", "HTTP", `^http tcp 127.0.0.1:\d+: ` + took + `no response headers; connected after .*; \d+ bytes sent, 0 received$`, rig.Silent},
		{"half of the headers", "HTTP", `^http tcp .*: ` + took + `the response headers are not finished; .*, [1-9]\d* received`, func(c net.Conn) {
			drip(c, "HTTP/1.1 200 OK\r\nX-A: ", 20*time.Millisecond)
		}},
		{"no body", "HTTP", `^body tcp .*: ` + took + `status 200; the body is not finished; .* 38 received, the last \d+ms ago$`, func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadString('\n') // an answer before the request would be another error
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
			rig.Silent(c)
		}},
		{"a body that drips", "HTTP", `^body tcp .*: ` + took + `status 503; the body is not finished; .*, the last .*s ago$`, func(c net.Conn) {
			drip(c, "HTTP/1.1 503 x\r\nContent-Length: 9999\r\n\r\n", 20*time.Millisecond)
		}},
		{"no TLS handshake", "HTTPS", `^tls tcp .*: ` + took + `the handshake is not finished; connected after .*; \d+ bytes sent, 0 received$`, rig.Silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"scheme":%q,"host":"127.0.0.1"}`, rig.Peer(t, c.serve), c.scheme))
			rig.WantWaiting(t, rig.Hang(t, h), c.pattern)
		})
	}
	t.Run("no answer after the TLS handshake", func(t *testing.T) {
		block := make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		t.Cleanup(func() { close(block) })
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"scheme":"HTTPS","host":"127.0.0.1"}`, rig.PortOf(t, s.Listener.Addr())))
		rig.WantWaiting(t, rig.HangFor(t, h, time.Second), `^http tcp .*: waiting for .*; .*headers`) // time for a handshake
	})
}

func TestAnswerInTimeHasNoDetails(t *testing.T) {
	_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
	if out, err := rig.Attempt(t, h, probe.Request{}, time.Minute); err != nil || out.Details != "" {
		t.Errorf("got %+v, %v", out, err)
	}
}
