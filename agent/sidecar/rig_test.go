package sidecar_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

const noSecrets = "no secrets here"

// rig has the parts of a server under test.
type rig struct {
	sidecar.Config
	log strings.Builder // safe to read when the server has stopped

	mu   sync.Mutex
	text string
	err  error // of reading the text
}

// newRig returns a rig with a single handler, called fake.
func newRig(t *testing.T, text string, fake probe.Handler) *rig {
	t.Helper()
	r := &rig{text: text}
	hosts := access.Hosts{}
	r.Config = sidecar.Config{
		Text: func() (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.text, r.err
		},
		Host: "10.0.0.1", Namespace: "shop", Pod: "web-0", PodUID: "u1",
		Prepare: func(_ context.Context, name string, _ []byte, _ probe.Target) (probe.Handler, error) {
			if name == "missing" {
				return nil, errors.New("unknown handler")
			}
			return fake, nil
		},
		ResolveSecret: func(string, string) (string, error) { return "", errors.New(noSecrets) },
		Observer:      metrics.New(metrics.Config{}),
		Metrics:       http.NotFoundHandler(),
		AllowHost:     hosts.Allow,
		Log:           slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	return r
}

// set changes the annotation.
func (r *rig) set(text string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text, r.err = text, err
}

// start creates the server.
func (r *rig) start(t *testing.T) *sidecar.Server {
	t.Helper()
	s, err := sidecar.New(t.Context(), r.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// serve creates the server and lets it listen. It returns its address.
func (r *rig) serve(t *testing.T) string {
	t.Helper()
	s, err := sidecar.New(t.Context(), r.Config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return listener.Addr().String()
}

// get sends a request to s without a connection.
func get(s http.Handler, path string) *httptest.ResponseRecorder {
	return do(s, httptest.NewRequest("GET", "http://10.0.0.1:9877"+path, nil))
}

func do(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// client returns a gRPC client for the address.
func client(t *testing.T, address string) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}
