package agent_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/access"
)

// Idle connections, which live for a minute, do not prevent a response within half a minute.
func TestIdleConnectionsDoNotBlockRequests(t *testing.T) {
	t.Parallel()
	const patience = 30 * time.Second
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			r := start(t, newTarget(t).external("shop"), func(c *agent.Config) {
				if secure {
					c.WebConfigFile, _ = webConfig(t, webTLS)
				}
			})
			_, address, _ := strings.Cut(r.url, "://")
			ask := func(path string) {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(patience))
				if secure {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				}
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if res.StatusCode != http.StatusOK {
					t.Errorf("%s: %d", path, res.StatusCode)
				}
			}
			for range access.MaxConns + 10 {
				ask("/livez")
			}
			for _, path := range []string{"/", "/livez", "/readyz", "/metrics"} {
				ask(path)
			}
			r.lines.await(t, 0, "connections closed", "reason=connections", "from=127.0.0.1")
			r.url = "http://localhost" // the socket has no TLS
			if _, body := r.send(r.local, "GET", "/metrics"); strings.Contains(body, "\nprober_http_connections_closed_total 0\n") {
				t.Error("closed connections are not counted")
			}
		})
	}
}
