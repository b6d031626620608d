package local_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

// TestHookRedirects tests which redirects the hooks of both sources of pods follow.
func TestHookRedirects(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	serve := func(name string, start func(http.Handler) *httptest.Server) (port string) {
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, name+r.URL.Path+" "+r.Header.Get("X-Token"))
			switch to := r.FormValue("to"); {
			case r.URL.Path == "/end":
				return
			case r.URL.Path == "/loop":
				w.Header().Set("Location", "/loop")
			case to != "":
				w.Header().Set("Location", to)
			}
			w.WriteHeader(http.StatusFound)
		}))
		t.Cleanup(s.Close)
		_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
		return port
	}
	own, other, secure := serve("own", httptest.NewServer), serve("other", httptest.NewServer), serve("secure", httptest.NewTLSServer)
	for name, c := range map[string]struct {
		path   string
		want   []string
		failed bool
	}{
		"same host":        {"/?to=/end", []string{"own/ secret", "own/end secret"}, false},
		"other host":       {"/?to=http://localhost:" + other + "/end", []string{"own/ secret"}, false},
		"other port":       {"/?to=http://127.0.0.1:" + other + "/end", []string{"own/ secret", "other/end secret"}, false},
		"https":            {"/?to=https://127.0.0.1:" + secure + "/end", []string{"own/ secret", "secure/end secret"}, false},
		"loop":             {"/loop", slices.Repeat([]string{"own/loop secret"}, 10), true},
		"missing Location": {"/", []string{"own/ secret"}, false},
	} {
		h := v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
			Path: c.path, Port: intstr.Parse(own), HTTPHeaders: []v1.HTTPHeader{{Name: "X-Token", Value: "secret"}},
		}}
		for user, run := range map[string]func(*testing.T, v1.LifecycleHandler) bool{"local": endLocal, "kube": restartOnNode} {
			t.Run(name+" "+user, func(t *testing.T) {
				seen = nil
				failed := run(t, h)
				mu.Lock()
				defer mu.Unlock()
				if failed != c.failed || !slices.Equal(seen, c.want) {
					t.Errorf("failed %t, requests %s", failed, strings.Join(seen, ", "))
				}
			})
		}
	}
}

// endLocal ends a local pod with a preStop hook, and reports whether the hook failed.
func endLocal(t *testing.T, h v1.LifecycleHandler) (failed bool) {
	w := newWorld(t)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, pod(`
  containers:
  - {name: a, command: [sleep, "1000"], lifecycle: {preStop: HOOK}}
`), "HOOK", string(text))
	w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") })
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.events, "pod FailedPreStopHook PreStopHook failed")
}

// restartOnNode restarts a container of a node with a preStop hook, and reports whether the hook failed.
func restartOnNode(t *testing.T, h v1.LifecycleHandler) (failed bool) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "default"},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []v1.Container{{Name: "c", Lifecycle: &v1.Lifecycle{PreStop: &h}}}},
		Status: v1.PodStatus{PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", ContainerID: "x://c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}},
	}
	stopped, events := make(chan struct{}), make(reasons, 10)
	actor := liveness.New(liveness.Config{
		Stop:    func(context.Context, string, time.Duration) error { close(stopped); return nil },
		Current: func(types.UID) *v1.Pod { return pod }, Party: func(types.UID) (liveness.Party, bool) { return liveness.Party{}, false }, Failing: func(types.UID, string, probe.Kind) bool { return true },
		Recorder: events, Logger: slog.New(slog.DiscardHandler), PressureDir: t.TempDir(), Breaker: liveness.Breaker{Least: 10},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { actor.Run(ctx) })
	actor.Failed(liveness.Failure{Pod: pod, Container: "c", ContainerID: "x://c", Kind: probe.Liveness, Mode: liveness.Restart})
	<-stopped
	cancel()
	running.Wait()
	close(events)
	for reason := range events {
		failed = failed || reason == "FailedPreStopHook"
	}
	return failed
}

// reasons takes the reasons of events.
type reasons chan string

// Event implements manager.Recorder.
func (r reasons) Event(_ runtime.Object, _, reason, _ string) { r <- reason }
