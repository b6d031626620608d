package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// unobserved is an observer that drops ticks.
type unobserved struct{}

func (unobserved) Observe(worker.Info) worker.ProbeObserver { return unobserved{} }
func (unobserved) Tick(*worker.Tick)                        {}
func (unobserved) Skipped(worker.SkipReason, int)           {}
func (unobserved) Close()                                   {}

// serveSidecar serves a sidecar whose probe has the result of step, and returns its port.
func serveSidecar(t *testing.T, more string, step probetest.Step) int {
	t.Helper()
	h := probetest.NewHandler(step)
	s, err := sidecar.New(t.Context(), sidecar.Config{
		Text: func() (string, error) { return "web: {readiness: {plugin: {name: fake}" + more + "}}", nil }, Host: "127.0.0.1",
		Prepare:   func(context.Context, string, []byte, probe.Target) (probe.Handler, error) { return h, nil },
		Observer:  unobserved{},
		Metrics:   http.NotFoundHandler(),
		AllowHost: func(host string) bool { return strings.HasPrefix(host, "127.0.0.1:") },
		Log:       slog.New(slog.DiscardHandler),
	})
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
	return listener.Addr().(*net.TCPAddr).Port
}

// TestSidecar probes `prober sidecar` with the kubelet's handlers. The kubelet would retry an error of its
// handler, and then discard it.
func TestSidecar(t *testing.T) {
	t.Parallel()
	broken := probetest.Error(errors.New("cannot tell"))
	const statuscode = "HTTP probe failed with statuscode: 503"
	for _, c := range []struct {
		name, more string
		step       probetest.Step
		http, grpc answer
	}{
		{"success", "", probetest.Answer(probe.Success, "fine"), answer{"success", "fine\n", "", ""}, answer{"success", "service healthy", "", ""}},
		{"warning is a success", "", probetest.Answer(probe.Warning, "slow"), answer{"success", "slow\n", "", ""}, answer{"success", "service healthy", "", ""}},
		{"failure", "", probetest.Answer(probe.Failure, "down"), answer{"failure", statuscode, "", ""}, answer{"failure", `service unhealthy (responded with "NOT_SERVING")`, "", ""}},
		{"unknown is a failure", "", probetest.Answer(probe.Unknown, "?"), answer{"failure", statuscode, "", ""}, answer{"failure", `service unhealthy (responded with "UNKNOWN")`, "", ""}},
		{"error is discarded over HTTP, and a success over gRPC", "", broken, answer{"failure", "", "unexpected EOF", ""}, answer{"success", "service healthy", "", ""}},
		{
			"error with errorPolicy failure is a failure", ", errorPolicy: failure", broken,
			answer{"failure", statuscode, "", ""}, answer{"failure", `service unhealthy (responded with "UNKNOWN")`, "", ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := serveSidecar(t, c.more, c.step)
			ask := func(h v1.ProbeHandler) answer {
				return askKubelet(question{action: h, podIP: "127.0.0.1", timeout: longDeadline})
			}
			get := &v1.HTTPGetAction{Path: "/web/readiness", Port: intstr.FromInt(port), Scheme: v1.URISchemeHTTP}
			if got := ask(v1.ProbeHandler{HTTPGet: get}); got != c.http {
				t.Errorf("httpGet: %s", got)
			}
			if got := ask(v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port), Service: new("web/readiness")}}); got != c.grpc {
				t.Errorf("grpc: %s", got)
			}
		})
	}
	t.Run("probe that does not exist is a failure", func(t *testing.T) {
		t.Parallel()
		port := serveSidecar(t, "", probetest.Answer(probe.Success, ""))
		get := &v1.HTTPGetAction{Path: "/web/liveness", Port: intstr.FromInt(port), Scheme: v1.URISchemeHTTP}
		got := askKubelet(question{action: v1.ProbeHandler{HTTPGet: get}, podIP: "127.0.0.1", timeout: longDeadline})
		if got != (answer{result: "failure", output: "HTTP probe failed with statuscode: 404"}) {
			t.Errorf("httpGet: %s", got)
		}
		got = askKubelet(question{action: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port)}}, podIP: "127.0.0.1", timeout: longDeadline})
		if got.result != "failure" || !strings.Contains(got.output, "code = NotFound") || !strings.Contains(got.output, "known: web/readiness") {
			t.Errorf("grpc without a service: %s", got)
		}
	})
}
