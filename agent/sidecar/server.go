package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/probe"
)

// ResultHeader is the header with the result of the attempt, in lower case. The HTTP status does not
// distinguish a warning from a success.
const ResultHeader = "Prober-Result"

// maxShown is the limit of the body of a response, in bytes.
const maxShown = 1024

// Config configures a [Server]. All fields are required except Ports and the fields about the pod.
type Config struct {
	// Text returns the present text of the annotation.
	Text  func() (string, error)
	Ports Ports
	// Host is the address of the pod, and the default host of targets.
	Host string
	// Namespace, Pod and PodUID are for handlers and metrics.
	Namespace, Pod, PodUID string

	Prepare       func(ctx context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error)
	ResolveSecret func(source, name string) (string, error) // see [manager.Config]
	Observer      worker.Observer                           // of attempts
	Metrics       http.Handler                              // serves /metrics
	AllowHost     func(hostport string) bool                // whether a request with this Host header is allowed
	Log           *slog.Logger
}

// Server serves the requests of the kubelet and of any other client that can connect.
type Server struct {
	cfg   Config
	table table
	rpc   *grpc.Server
}

var _ http.Handler = (*Server)(nil)

// New reads the annotation and binds its probes. It returns early if ctx ends.
func New(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	text, err := cfg.Text()
	if err != nil {
		return nil, err
	}
	if _, err := s.apply(ctx, text); err != nil {
		return nil, err
	}
	s.rpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxShown))
	grpc_health_v1.RegisterHealthServer(s.rpc, &healthServer{table: &s.table})
	return s, nil
}

// Close ends all attempts and releases their handlers.
func (s *Server) Close() {
	s.rpc.Stop()
	s.table.replace(nil)
}

// podView is the pod as handlers see it.
type podView struct {
	pod        probe.Pod
	containers map[string]*probe.Container
}

func (s *Server) pod(containers []v1.Container) *podView {
	view := &podView{
		pod:        probe.Pod{Namespace: s.cfg.Namespace, Name: s.cfg.Pod, UID: s.cfg.PodUID},
		containers: make(map[string]*probe.Container, len(containers)),
	}
	for _, c := range containers {
		own := &probe.Container{Name: c.Name}
		for _, p := range c.Ports {
			own.Ports = append(own.Ports, probe.Port{Name: p.Name, Number: int(p.ContainerPort), Protocol: string(p.Protocol)})
		}
		view.containers[c.Name] = own
		view.pod.Ports = append(view.pod.Ports, own.Ports...)
	}
	return view
}

// ServeHTTP implements [http.Handler]. gRPC calls use the same port.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.AllowHost(r.Host) { // for example a page of another site after DNS rebinding
		http.Error(w, "the host is not allowed: ask for an IP address", http.StatusForbidden)
		return
	}
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		s.rpc.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is allowed here", http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength != 0 { // a body that never ends would keep the connection open
		w.Header().Set("Connection", "close")
		http.Error(w, "the request must not have a body", http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/healthz":
		_, _ = w.Write([]byte("ok"))
	case "/metrics":
		s.cfg.Metrics.ServeHTTP(w, r)
	default:
		s.serveProbe(w, r)
	}
}

// serveProbe responds to GET /CONTAINER/KIND.
func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	f := s.table.fly(name)
	if f == nil {
		http.Error(w, unknown(name, s.table.names()), http.StatusNotFound)
		return
	}
	v, err := f.wait(r.Context())
	if err != nil {
		return // the client has left
	}
	text := cmp.Or(oneLine(v.Text), v.Result.String()) + "\n"
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set(ResultHeader, v.Result.String())
	switch {
	case v.Undecided:
		breakOff(w, text)
	case v.Failed:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(text))
	default:
		_, _ = w.Write([]byte(text))
	}
}

// breakOff responds that nothing was decided. The kubelet discards a response whose body ends before its
// Content-Length, as it discards its own errors. Clients that do not read the body see a success.
func breakOff(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_, _ = w.Write([]byte(text)) // net/http closes the connection, as the body is too short
}

// unknown returns the message for a probe that does not exist.
func unknown(name string, known []string) string {
	text := fmt.Sprintf("there is no probe %.200q; known: %s", name, strings.Join(known, ", "))
	if near := nearest.Name(name[:min(len(name), 200)], known); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// oneLine returns the beginning of text as one line without control characters.
func oneLine(text string) string {
	return explain.OneLine(clip.Marked(text, maxShown, "…"))
}
