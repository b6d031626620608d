package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const web = "web: {readiness: {plugin: {name: fake}%s}}"

func TestAnswers(t *testing.T) {
	t.Parallel()
	const (
		serving    = grpc_health_v1.HealthCheckResponse_SERVING
		notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		unknown    = grpc_health_v1.HealthCheckResponse_UNKNOWN
	)
	broken := probetest.Error(errors.New("cannot tell"))
	for _, c := range []struct {
		name   string
		step   probetest.Step
		more   string // appended to the annotation
		status int
		cut    bool // the body ends before its Content-Length
		result string
		body   string
		rpc    grpc_health_v1.HealthCheckResponse_ServingStatus
	}{
		{"success", probetest.Answer(probe.Success, "fine"), "", 200, false, "success", "fine\n", serving},
		{"warning", probetest.Answer(probe.Warning, "slow"), "", 200, false, "warning", "slow\n", serving},
		{"warning as a failure", probetest.Answer(probe.Warning, "slow"), ", warningAs: failure", 503, false, "warning", "slow\n", notServing},
		{"failure", probetest.Answer(probe.Failure, "down"), "", 503, false, "failure", "down\n", notServing},
		{"unknown counts as a failure", probetest.Answer(probe.Unknown, "?"), "", 503, false, "unknown", "?\n", unknown},
		{"error decides nothing", broken, "", 200, true, "unknown", "cannot tell\n", serving},
		{"error with errorPolicy failure", broken, ", errorPolicy: failure", 503, false, "unknown", "cannot tell\n", unknown},
		{
			"no slot with errorPolicy failure decides nothing", probetest.Error(fmt.Errorf("pool: %w", probe.ErrNoSlot)), ", errorPolicy: failure",
			200, true, "unknown", "pool: " + probe.ErrNoSlot.Error() + "\n", serving,
		},
		{"panic decides nothing", probetest.Panic("ouch"), "", 200, true, "unknown", "the handler panicked: ouch\n", serving},
		{
			"output is one line without control characters", probetest.Answer(probe.Failure, "a\nb\x1b[31m\u202ec\xff"), "",
			503, false, "failure", "a b [31m\ufffdc\ufffd\n", notServing,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := newRig(t, fmt.Sprintf(web, c.more), probetest.NewHandler(c.step, c.step, c.step)).serve(t)
			res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/web/readiness")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if cut := errors.Is(err, io.ErrUnexpectedEOF); cut != c.cut || err != nil && !cut {
				t.Errorf("body ended with %v, want it cut: %t", err, c.cut)
			}
			if res.StatusCode != c.status || string(body) != c.body || res.Header.Get(sidecar.ResultHeader) != c.result {
				t.Errorf("HTTP: %s, %s %q, body %q", res.Status, sidecar.ResultHeader, res.Header.Get(sidecar.ResultHeader), body)
			}
			var header metadata.MD
			answer, err := client(t, address).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "web/readiness"}, grpc.Header(&header))
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetStatus() != c.rpc || strings.Join(header.Get(sidecar.ResultHeader), " ") != c.result {
				t.Errorf("gRPC: %s, header %v", answer.GetStatus(), header)
			}
		})
	}
}

func TestLongOutputIsCut(t *testing.T) {
	s := newRig(t, fmt.Sprintf(web, ""), probetest.NewHandler(probetest.Answer(probe.Failure, strings.Repeat("x", 10_000)))).start(t)
	if n := get(s, "/web/readiness").Body.Len(); n < 1000 || n > 1100 {
		t.Errorf("%d bytes", n)
	}
}

func TestHandlerGetsRequestOfThePod(t *testing.T) {
	for target, want := range map[string]probe.Target{
		"": {Host: "10.0.0.1"}, ", target: {port: 6379}": {Host: "10.0.0.1", Port: 6379},
		", target: {host: 127.0.0.1, port: redis}": {Host: "127.0.0.1", Port: 6380}, ", target: {unix: /run/s}": {Unix: "/run/s"},
	} {
		h := probetest.NewHandler()
		r := newRig(t, "web: {liveness: {plugin: {name: fake"+target+"}, timeout: 300ms}}", h)
		var err error
		if r.Ports, err = sidecar.ParsePorts([]string{"web:redis=6380"}); err != nil {
			t.Fatal(err)
		}
		get(r.start(t), "/web/liveness")
		got := h.Calls()[0]
		if got.Request.Target != want || got.Request.PodIP != "10.0.0.1" || got.Request.Kind != probe.Liveness || got.Request.Attempt != 1 ||
			got.Timeout <= 0 || got.Timeout > 300*time.Millisecond || got.Request.Pod.Name != "web-0" || got.Request.Container.Name != "web" ||
			got.Request.Container.Ports[0] != (probe.Port{Name: "redis", Number: 6380, Protocol: "TCP"}) {
			t.Errorf("%s: got %+v", target, got)
		}
	}
}

func TestOtherRequests(t *testing.T) {
	r := newRig(t, "{web: {readiness: {plugin: {name: fake}}, liveness: {plugin: {name: fake}}}, db: {startup: {plugin: {name: fake}}}}", probetest.NewHandler())
	r.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "prober_up 1") })
	s := r.start(t)
	const known = "known: db/startup, web/liveness, web/readiness"
	for _, c := range []struct {
		request *http.Request
		status  int
		text    string
	}{
		{httptest.NewRequest("GET", "http://10.0.0.1/healthz", nil), 200, "ok"},
		{httptest.NewRequest("GET", "http://[fd00::1]:9877/metrics", nil), 200, "prober_up 1"},
		{httptest.NewRequest("GET", "http://10.0.0.1/web/startup", nil), 404, `there is no probe "web/startup"; ` + known},
		{httptest.NewRequest("GET", "http://10.0.0.1/wbe/liveness", nil), 404, known + ` (did you mean "web/liveness"?)`},
		{httptest.NewRequest("GET", "http://10.0.0.1/"+strings.Repeat("x", 5000), nil), 404, known},
		{httptest.NewRequest("POST", "http://10.0.0.1/web/liveness", nil), 405, "only GET is allowed here"},
		{httptest.NewRequest("HEAD", "http://10.0.0.1/web/liveness", nil), 405, ""},
		{httptest.NewRequest("GET", "http://10.0.0.1/web/liveness", strings.NewReader("x")), 400, "the request must not have a body"},
		{httptest.NewRequest("GET", "http://shop.example.com/web/liveness", nil), 403, "the host is not allowed: ask for an IP address"},
	} {
		w := do(s, c.request)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || w.Body.Len() > 1000 {
			t.Errorf("%s %.60s: %d %q", c.request.Method, c.request.URL, w.Code, w.Body)
		}
	}
}

func TestGRPCErrors(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	address := newRig(t, fmt.Sprintf(web, ", timeout: 10m"), probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return probe.Outcome{Result: probe.Success}, nil
	})).serve(t)
	c := client(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "web/readiness"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("caller whose deadline has passed: %v", err)
	}
	close(release)
	if answer, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "web/readiness"}); err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("next caller: %v %v", answer, err)
	}
	for _, service := range []string{"", "web", "web/liveness"} {
		_, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "known: web/readiness") {
			t.Errorf("service %q: %v", service, err)
		}
	}
	if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 5000)}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("long service: %v", err)
	}
	watch, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "web/readiness"})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("watch: %v", err)
	}
}
