package builtin_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/probe"
)

// watcher is an observer that keeps the certificates of handshakes.
type watcher struct{ shown []certificates.Shown }

func (*watcher) WatchHandshakes()                 {}
func (w *watcher) Handshook(s certificates.Shown) { w.shown = append(w.shown, s) }

// TestHandlersReportCertificates has each path of the handlers: their own code, net/http, grpc-go, what they continue,
// and a connection that is kept.
func TestHandlersReportCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	l, grpcPort := rig.Loopback(t)
	rig.ServeGRPC(t, l, rig.Answers(healthpb.HealthCheckResponse_SERVING), grpc.Creds(credentials.NewServerTLSFromCert(&s.TLS.Certificates[0])))
	plain, plainPort := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.URL, http.StatusFound) })
	defer plain.Close()
	port := rig.PortOf(t, s.Listener.Addr())
	web := builtin.NewHTTP(builtin.Config{})
	for _, c := range []struct {
		name    string
		handler probe.Preparer
		config  string
		want    int // handshakes of two attempts
	}{
		{"address", web, fmt.Sprintf(`{"scheme":"HTTPS","host":"127.0.0.1","port":%d,"path":"/"}`, port), 2},
		{"name", web, fmt.Sprintf(`{"scheme":"HTTPS","host":"localhost","port":%d,"path":"/"}`, port), 2},
		{"redirect", web, fmt.Sprintf(`{"scheme":"HTTPS","host":"127.0.0.1","port":%d,"path":"/redirect"}`, port), 4},
		{"redirect to TLS", builtin.NewHTTP(builtin.Config{FollowNonLocalRedirects: true}), fmt.Sprintf(`{"host":"127.0.0.1","port":%d,"path":"/"}`, plainPort), 2},
		{"long body", web, fmt.Sprintf(`{"scheme":"HTTPS","host":"127.0.0.1","port":%d,"path":"/large"}`, port), 2},
		{"kept connection", web, fmt.Sprintf(`{"scheme":"HTTPS","host":"127.0.0.1","port":%d,"path":"/","connection":"reuse"}`, port), 2},
		{"gRPC", builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d,"mode":"TLS"}`, grpcPort), 2},
		{"grpc-go", builtin.NewGRPC(builtin.Config{Compat: probe.CompatGRPCLibrary}), fmt.Sprintf(`{"port":%d,"mode":"TLS"}`, grpcPort), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, w := rig.Prepare(t, c.handler, c.config), new(watcher)
			defer probe.Release(h)
			for range 2 {
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), handshake.Key{}, w), time.Minute)
				got, err := h.Probe(ctx, probe.Request{PodIP: "127.0.0.1", Spec: probe.Spec{Timeout: time.Minute, Period: time.Hour}})
				cancel()
				if err != nil || got.Result != probe.Success {
					t.Fatal(got, err)
				}
			}
			if len(w.shown) != c.want {
				t.Errorf("%d handshakes, want %d", len(w.shown), c.want)
			}
			for _, shown := range w.shown {
				if len(shown.Sent) != 1 || !shown.Sent[0].Equal(s.Certificate()) || shown.Verified != nil || shown.Err != nil {
					t.Errorf("got %+v", shown)
				}
			}
		})
	}
}
