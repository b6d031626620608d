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

// ResultHeader has the result of the attempt, in lower case: the status of HTTP alone does not tell a
// warning from a success.
const ResultHeader = "Prober-Result"

// maxShown is the limit of the body of an answer, in bytes.
const maxShown = 1024

// Config is what a [Server] needs. All fields are required but Ports and those of the pod.
type Config struct {
	// Text returns the text of the annotation, as it is now.
	Text  func() (string, error)
	Ports Ports
	// Host is the address of the pod, and the default of targets.
	Host string
	// Namespace, Pod and PodUID are for handlers and metrics.
	Namespace, Pod, PodUID string

	Prepare       func(ctx context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error)
	ResolveSecret func(source, name string) (string, error) // see [manager.Config]
	Observer      worker.Observer                           // of attempts
	Metrics       http.Handler                              // of /metrics
	AllowHost     func(hostport string) bool                // whether a request with this Host header is answered
	Log           *slog.Logger
}

// Server answers the requests of the kubelet, and of everybody else who can connect.
type Server struct {
	cfg   Config
	table table
	rpc   *grpc.Server
}

var _ http.Handler = (*Server)(nil)

// New reads the annotation and binds its probes. The end of ctx ends that.
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

// podView is what handlers see of the pod.
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

// ServeHTTP implements [http.Handler]. Calls of gRPC come over the same port.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.AllowHost(r.Host) { // a page of another site, whose name leads here
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
	if r.ContentLength != 0 { // a body that never ends would keep the connection
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

// serveProbe answers GET /CONTAINER/KIND.
func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	f := s.table.fly(name)
	if f == nil {
		http.Error(w, unknown(name, s.table.names()), http.StatusNotFound)
		return
	}
	v, err := f.wait(r.Context())
	if err != nil {
		return // the caller has left
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

// breakOff answers that nothing was decided. The kubelet discards the result of an answer whose body
// ends before its length, as it discards errors of its own. Those who do not read the body see a success.
func breakOff(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_, _ = w.Write([]byte(text)) // net/http closes the connection of an answer that is too short
}

// unknown returns the text for a probe that does not exist.
func unknown(name string, known []string) string {
	text := fmt.Sprintf("there is no probe %.200q; known: %s", name, strings.Join(known, ", "))
	if near := nearest.Name(name[:min(len(name), 200)], known); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// oneLine returns the first bytes of text as one line without control characters.
func oneLine(text string) string {
	return explain.OneLine(clip.Marked(text, maxShown, "…"))
}
