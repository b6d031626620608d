package oracle

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// web answers the network probes of all runs. It uses real sockets outside of the bubbles, and fake time
// does not advance while an attempt waits for it. The path or the gRPC service of a probe is its run and
// name, such as "7/p0/c1/readiness".
type web struct {
	health.UnimplementedHealthServer
	http     *httptest.Server
	grpc     *grpc.Server
	grpcPort int

	mu   sync.Mutex
	runs []*runner
}

func newWeb() (*web, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &web{grpc: grpc.NewServer(), grpcPort: port(listener)}
	health.RegisterHealthServer(w.grpc, w)
	go func() { _ = w.grpc.Serve(listener) }() // ends when close stops the server
	w.http = httptest.NewServer(w)
	return w, nil
}

func (w *web) close() {
	w.http.Close()
	w.grpc.Stop()
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// refusedPort is a port without a listener.
const refusedPort = 1

// handler makes the handler of a probe of a run.
func (w *web) handler(kind, run, name string) v1.ProbeHandler {
	httpPort := intstr.FromInt(port(w.http.Listener))
	switch path := run + "/" + name; kind {
	case "http":
		return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: httpPort, Path: "/" + path, Scheme: v1.URISchemeHTTP}}
	case "grpc":
		return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(w.grpcPort), Service: &path}}
	case "grpc-refused":
		return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: refusedPort, Service: &path}}
	case "refused":
		return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(refusedPort)}}
	default:
		return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: httpPort}}
	}
}

// add adds r, and returns the name of its run.
func (w *web) add(r *runner) (run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, r)
	return strconv.Itoa(len(w.runs) - 1)
}

// remove removes a run.
func (w *web) remove(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[mustAtoi(run)] = nil
}

// step returns the next step of the probe with the path. ok is false after the end of the run.
func (w *web) step(path string) (n int, s Step, ok bool) {
	run, name, _ := strings.Cut(path, "/")
	w.mu.Lock()
	r := w.runs[mustAtoi(run)]
	w.mu.Unlock()
	if r == nil {
		return 0, Step{}, false
	}
	n, s = r.step(strings.ReplaceAll(name, "/", " "))
	return n, s, true
}

// ServeHTTP answers an HTTP probe. The body has the request, and the number of the attempt, so that an event
// with the output of another attempt is detected.
func (w *web) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	n, step, ok := w.step(req.URL.Path[1:])
	if !ok {
		rw.WriteHeader(http.StatusGone)
		return
	}
	agent, _, _ := strings.Cut(req.UserAgent(), "/")
	req.Header.Set("User-Agent", agent) // without the version, which the kubelet has only as a program
	body := fmt.Appendf(nil, "attempt %d: %s %s %s %v", n+1, req.Method, req.Host, req.Proto, req.Header)
	switch step.Do {
	case StepOK, StepTimeout:
	case StepZero:
		rw.Header().Set("Location", "http://elsewhere.test/")
		rw.WriteHeader(http.StatusFound)
	case StepPanic:
		rw.WriteHeader(http.StatusMultipleChoices)
	case StepBig: // not a warning: the kubelet limits the body of a warning, we limit the whole output
		body = bytes.Repeat(body, 1000)
	case StepError: // the body is shorter than its Content-Length
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	default:
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = rw.Write(body) // the client may have closed the connection
}

// Check answers a gRPC probe.
func (w *web) Check(_ context.Context, req *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	n, step, ok := w.step(req.Service)
	if !ok {
		return nil, status.Error(codes.Aborted, "the run is over")
	}
	answer := func(s health.HealthCheckResponse_ServingStatus) (*health.HealthCheckResponse, error) {
		return &health.HealthCheckResponse{Status: s}, nil
	}
	switch step.Do {
	case StepFail:
		return answer(health.HealthCheckResponse_NOT_SERVING)
	case StepZero:
		return answer(health.HealthCheckResponse_SERVICE_UNKNOWN)
	case StepError:
		return nil, status.Errorf(codes.NotFound, "attempt %d", n+1)
	case StepPanic:
		return nil, status.Errorf(codes.Unimplemented, "attempt %d", n+1)
	case StepTimeout:
		return nil, status.Errorf(codes.DeadlineExceeded, "attempt %d", n+1)
	default:
		return answer(health.HealthCheckResponse_SERVING)
	}
}

func mustAtoi(s string) int {
	i, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("not a number: %v", err))
	}
	return i
}
