package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/sdk/sdktest"
)

// sixContainers is the pod of the test: all kinds, all four handlers and a plugin.
const sixContainers = `apiVersion: v1
kind: Pod
metadata:
  name: six
  annotations:
    prober.dev/probes: |
      web:
        startup: {tcpSocket: {port: http}, period: 50ms, timeout: 5s, failureThreshold: 1000}
        readiness: {httpGet: {path: /ready, port: http}, period: 50ms, timeout: 1m, failureThreshold: 1}
        liveness: {httpGet: {path: /live, port: http}, period: 100ms, timeout: 1m, failureThreshold: 10}
      rpc:
        readiness: {grpc: {port: RPC, service: ready}, period: 50ms, timeout: 1m, failureThreshold: 1}
      cache:
        readiness: {plugin: {name: redis, target: {port: redis}}, period: 50ms, timeout: 1m, failureThreshold: 1}
spec:
  terminationGracePeriodSeconds: 60
  initContainers:
  - name: proxy
    restartPolicy: Always
    command: [EXE, __app, http, proxy, CONTROL, "127.0.0.1:PROXY"]
    startupProbe: {tcpSocket: {port: PROXY}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000}
  containers:
  - name: web
    command: [EXE, __app, http, web, CONTROL, "127.0.0.1:WEB"]
    ports: [{name: http, containerPort: WEB}]
  - name: rpc
    command: [EXE, __app, grpc, rpc, CONTROL, "127.0.0.1:RPC"]
    livenessProbe: {grpc: {port: RPC, service: live}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000}
  - name: worker
    command: [sleep, "1000"]
    startupProbe: {exec: {command: [EXE, __app, ask, worker-up, CONTROL]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000}
    livenessProbe: {exec: {command: [EXE, __app, ask, worker-live, CONTROL]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000}
  - name: cache
    command: [EXE, __app, resp, cache, CONTROL, "127.0.0.1:CACHE"]
    ports: [{name: redis, containerPort: CACHE}]
  - name: ext
    readinessProbe: {httpGet: {path: /flag/ext-ready, port: EXT}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1}
`

// TestPodOfSixContainers runs the binary, and checks what the API shows at each stage of a pod's
// life. It takes about 7 s: periods and back-offs of containers are whole seconds.
func TestPodOfSixContainers(t *testing.T) {
	t.Parallel()
	plugins := t.TempDir()
	module, err := redisModule()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "redis.wasm"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := newControl("proxy")
	flags.set(true, "web-live", "rpc-live", "worker-live", "ext-ready")
	server := httptest.NewServer(flags)
	t.Cleanup(server.Close) // after the end of the agent, whose containers may use it
	ports, manifest := fillIn(t, server)
	a := runAgent(t, manifest, plugins)

	for _, stage := range []struct {
		name   string
		change func()
		wrong  func(s *state) string // returns "" if the state is right
	}{
		{"the sidecar has not started", func() {}, sidecarWaits},
		{"the sidecar lets the others run", func() { flags.letStart("proxy") }, unready},
		{"everything is ready", func() { flags.set(true, "worker-up", "web-ready", "rpc-ready", "cache-ready") }, allReady(0)},
		{"liveness restarts a container", func() { flags.set(false, "web-live") }, allReady(1)},
		{"the plugin finds a failure", func() { flags.set(false, "cache-ready") }, cacheUnready},
		{"the plugin finds a success again", func() { flags.set(true, "cache-ready") }, allReady(1)},
	} {
		stage.change()
		a.await(t, stage.name, stage.wrong)
		shown := a.get(t)
		if wrong := stage.wrong(&shown); wrong != "" {
			t.Fatalf("%s: the lists disagree with the stream: %s", stage.name, wrong)
		}
	}
	checkEvents(t, a.url)
	checkMetrics(t, a.url)
	stderr := a.stop(t)
	for _, want := range []string{
		`msg="container restarted" namespace=default pod=six container=web cause=liveness count=1`,
		`reason=Killing namespace=default pod=six object=spec.containers{web} message="Container web failed liveness probe, will be restarted"`,
		"prober: stopped by SIGTERM\n",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in stderr", want)
		}
	}
	for name, port := range ports {
		if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			_ = conn.Close()
			t.Errorf("%s still listens", name)
		}
	}
	if t.Failed() {
		t.Log(stderr)
	}
}

// redisModule returns the example plugin redis, which is built once.
var redisModule = sync.OnceValues(func() ([]byte, error) {
	return sdktest.Build(context.Background(), "../../examples/plugins/redis")
})

// fillIn completes the manifest and returns it with the ports of the containers.
func fillIn(t *testing.T, server *httptest.Server) (ports map[string]string, manifest string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ports = make(map[string]string)
	// The ports are not in the range of ephemeral ports: another test could take such a port before it is
	// used.
	for port, names := 20_000+97*os.Getpid()%10_000, []string{"PROXY", "WEB", "RPC", "CACHE"}; len(names) > 0; port++ {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		if err == nil {
			defer l.Close()
			ports[names[0]], names = fmt.Sprint(port), names[1:]
		}
	}
	_, external, _ := net.SplitHostPort(server.Listener.Addr().String())
	pairs := []string{"EXE", exe, "CONTROL", server.URL, "EXT", external}
	for name, port := range ports {
		pairs = append(pairs, name, port)
	}
	return ports, strings.NewReplacer(pairs...).Replace(sixContainers)
}

// container returns the status of a container, and its name when there is none.
func (s *state) container(name string) v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{s.pod.Status.InitContainerStatuses, s.pod.Status.ContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return v1.ContainerStatus{}
}

func (s *state) condition(t v1.PodConditionType) v1.PodCondition {
	for _, c := range s.pod.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.PodCondition{}
}

// expectation is the expected status of one container: its state, started and ready.
type expectation struct {
	name           string
	running        bool
	started, ready bool
}

func (s *state) differs(phase v1.PodPhase, initialized, ready v1.ConditionStatus, containers ...expectation) string {
	if s.pod.Status.Phase != phase {
		return fmt.Sprintf("phase %s, want %s", s.pod.Status.Phase, phase)
	}
	for condition, want := range map[v1.PodConditionType]v1.ConditionStatus{
		v1.PodInitialized: initialized, v1.ContainersReady: ready, v1.PodReady: ready,
	} {
		if got := s.condition(condition); got.Status != want {
			return fmt.Sprintf("condition %s is %s (%s), want %s", condition, got.Status, got.Message, want)
		}
	}
	if len(s.pod.Status.InitContainerStatuses) != 1 || len(s.pod.Status.ContainerStatuses) != 5 {
		return "want 1 init container status and 5 others"
	}
	for _, e := range containers {
		c := s.container(e.name)
		started := c.Started != nil && *c.Started
		if (c.State.Running != nil) != e.running || (c.State.Waiting != nil) == e.running || started != e.started || c.Ready != e.ready {
			return fmt.Sprintf("container %s: running %t, started %t, ready %t, want %+v", c.Name, c.State.Running != nil, started, c.Ready, e)
		}
	}
	return ""
}

// result returns the difference between a probe and its wanted state, "" for none.
func (s *state) result(key, handler, decided, last, output string) string {
	p := s.probes[key]
	got := ""
	if p.Last != nil {
		got = p.Last.Result
	}
	if p.Handler != handler || p.Result != decided || got != last {
		return fmt.Sprintf("probe %s: handler %s, decided %s, last %q; want %s, %s, %q", key, p.Handler, p.Result, got, handler, decided, last)
	}
	if output != "" && !strings.Contains(p.Last.Output, output) {
		return fmt.Sprintf("probe %s: output %q, want %q in it", key, p.Last.Output, output)
	}
	if last != "" && p.ContainerID != s.container(p.Container).ContainerID {
		return fmt.Sprintf("probe %s is of container %q, not %q", key, p.ContainerID, s.container(p.Container).ContainerID)
	}
	return ""
}

// first returns the first of texts that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func sidecarWaits(s *state) string {
	return first(
		s.differs(v1.PodPending, v1.ConditionFalse, v1.ConditionFalse,
			expectation{"proxy", true, false, false}, expectation{"web", false, false, false}, expectation{"rpc", false, false, false},
			expectation{"worker", false, false, false}, expectation{"cache", false, false, false}, expectation{"ext", false, false, false}),
		s.result("proxy/startup", "tcp", "unknown", "failure", "connection refused"),
		s.result("web/readiness", "http", "failure", "", ""),
		s.result("worker/startup", "exec", "unknown", "", ""),
		s.result("cache/readiness", "redis", "failure", "", ""),
	)
}

func unready(s *state) string {
	return first(
		s.differs(v1.PodRunning, v1.ConditionTrue, v1.ConditionFalse,
			expectation{"proxy", true, true, true}, expectation{"web", true, true, false}, expectation{"rpc", true, true, false},
			expectation{"worker", true, false, false}, expectation{"cache", true, true, false}, expectation{"ext", true, true, true}),
		s.result("proxy/startup", "tcp", "success", "success", ""),
		s.result("web/readiness", "http", "failure", "failure", "statuscode: 503"),
		s.result("web/liveness", "http", "success", "success", ""),
		s.result("rpc/readiness", "grpc", "failure", "failure", "NOT_SERVING"),
		s.result("rpc/liveness", "grpc", "success", "success", ""),
		s.result("worker/startup", "exec", "unknown", "failure", ""),
		s.result("worker/liveness", "exec", "success", "", ""),
		s.result("cache/readiness", "redis", "failure", "failure", "LOADING"),
		s.result("ext/readiness", "http", "success", "success", ""),
	)
}

// allReady returns a check for a pod whose probes all succeed, and whose web container has this number of
// restarts.
func allReady(restarts int32) func(*state) string {
	return func(s *state) string {
		wrong := first(
			s.differs(v1.PodRunning, v1.ConditionTrue, v1.ConditionTrue,
				expectation{"proxy", true, true, true}, expectation{"web", true, true, true}, expectation{"rpc", true, true, true},
				expectation{"worker", true, true, true}, expectation{"cache", true, true, true}, expectation{"ext", true, true, true}),
			s.result("web/readiness", "http", "success", "success", ""),
			s.result("web/liveness", "http", "success", "success", ""),
			s.result("rpc/readiness", "grpc", "success", "success", ""),
			s.result("worker/startup", "exec", "success", "success", ""),
			s.result("worker/liveness", "exec", "success", "success", ""),
			s.result("cache/readiness", "redis", "success", "success", "PONG from a master of 0 replicas"),
		)
		web := s.container("web")
		switch {
		case wrong != "":
			return wrong
		case web.RestartCount != restarts || (web.LastTerminationState.Terminated != nil) != (restarts > 0):
			return fmt.Sprintf("web was restarted %d times, want %d", web.RestartCount, restarts)
		case s.container("rpc").RestartCount+s.container("worker").RestartCount+s.container("cache").RestartCount != 0:
			return "another container was restarted"
		case !s.probes["worker/startup"].OnHold:
			return "the startup probe of worker is not on hold"
		}
		return ""
	}
}

func cacheUnready(s *state) string {
	wrong := first(
		s.differs(v1.PodRunning, v1.ConditionTrue, v1.ConditionFalse,
			expectation{"web", true, true, true}, expectation{"rpc", true, true, true}, expectation{"cache", true, true, false}),
		s.result("cache/readiness", "redis", "failure", "failure", "LOADING"),
	)
	if message := s.condition(v1.ContainersReady).Message; wrong == "" && message != "containers with unready status: [cache]" {
		return "message " + message
	}
	return wrong
}

func checkEvents(t *testing.T, url string) {
	t.Helper()
	var list v1.EventList
	fetch(t, url+"/api/v1/events", &list)
	counts := make(map[string]int32)
	for _, e := range list.Items {
		counts[e.InvolvedObject.FieldPath+" "+e.Reason+" "+e.Message] = e.Count
	}
	for event, least := range map[string]int32{
		"spec.containers{web} Unhealthy Liveness probe failed: HTTP probe failed with statuscode: 503":            2,
		"spec.containers{web} Killing Container web failed liveness probe, will be restarted":                     1,
		"spec.containers{cache} Unhealthy Readiness probe failed: PING: LOADING the dataset is not in memory yet": 1,
	} {
		if counts[event] < least {
			t.Errorf("event %q: %d times, want %d", event, counts[event], least)
		}
	}
	if t.Failed() {
		t.Logf("%v", counts)
	}
}

func checkMetrics(t *testing.T, url string) {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`prober_plugin_metric{container="cache",kind="readiness",metric="ping_seconds",namespace="default",plugin="redis",pod="six",unit="s"} `,
		`prober_restarts_total{container="web",kind="liveness",namespace="default",pod="six"} 1` + "\n",
		"prober_workers 10\n",
		`prober_plugin_info{digest="sha256:`,
		`prober_plugin_instances{plugin="redis",state="busy"} `,
		`prober_plugin_denied_total{capability="net",plugin="redis"} 0` + "\n",
		"prober_plugin_memory_bytes ",
		`prober_plugin_call_seconds_count{plugin="redis"} `,
		`prober_outcomes_total{handler="redis",result="success"} `,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}
