package liveness_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/pods/kube/liveness"
)

// hooked gives the container of a pod a preStop hook.
func hooked(h v1.LifecycleHandler) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &h} }
}

func TestPreStopTimeIsPartOfGrace(t *testing.T) {
	command := v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"quit", "now"}}}
	for _, c := range []struct {
		name  string
		hook  v1.LifecycleHandler
		exec  func(context.Context) error
		grace time.Duration // grace period passed to Stop; the pod's is 30 s
		after time.Duration // delay of Stop after the settle time
		fails bool
	}{
		{"command", command, func(context.Context) error { time.Sleep(12 * time.Second); return nil }, 18 * time.Second, 12 * time.Second, false},
		{"command that uses up the grace", command, func(context.Context) error { time.Sleep(29 * time.Second); return nil }, 2 * time.Second, 29 * time.Second, false},
		{"command that hangs", command, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 2 * time.Second, 30 * time.Second, true},
		{"command that fails", command, func(context.Context) error { return errors.New("exit code 1") }, 30 * time.Second, 0, true},
		{"sleep", v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 10}}, nil, 20 * time.Second, 10 * time.Second, false},
		{"sleep that is too long", v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1 << 40}}, nil, 2 * time.Second, 30 * time.Second, true},
		{"no handler", v1.LifecycleHandler{}, nil, 30 * time.Second, 0, true},
		{"request to another host", v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt(80)}}, nil, 30 * time.Second, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.add("u", "", hooked(c.hook))
				n.onExec = func(ctx context.Context, cmd []string) error {
					if !slices.Equal(cmd, []string{"quit", "now"}) {
						t.Errorf("ran %q", cmd)
					}
					return c.exec(ctx)
				}
				begun := time.Now()
				n.fail(n.actor(t, nil), "u")
				after(5 * time.Minute)
				s := n.stopped()
				if len(s) != 1 || s[0].grace != c.grace {
					t.Fatalf("stopped %v, want a grace of %v", s, c.grace)
				}
				if d := s[0].at.Sub(begun) - c.after; d < time.Second || d > 1500*time.Millisecond {
					t.Errorf("stopped %v after the failure", s[0].at.Sub(begun))
				}
				want := []string{"u spec.containers{app} Normal Killing: Container app failed liveness probe, will be restarted"}
				if c.fails {
					want = append(want, "u spec.containers{app} Warning FailedPreStopHook: PreStopHook failed")
				}
				if !slices.Equal(n.events, want) {
					t.Errorf("events %q", n.events)
				}
			})
		})
	}
}

func TestPreStopCommandWithoutRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "", hooked(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}))
		n.fail(n.actor(t, func(cfg *liveness.Config) { cfg.Exec = nil }), "u")
		after(time.Minute)
		if len(n.stopped()) != 1 || len(n.told("FailedPreStopHook")) != 1 || !strings.Contains(n.logged(), "commands cannot be run in containers") {
			t.Errorf("stopped %v, events %q", n.stopped(), n.events)
		}
	})
}

// TestPreStopRequest sends requests to real servers.
func TestPreStopRequest(t *testing.T) {
	for name, c := range map[string]struct {
		start  func(http.Handler) *httptest.Server
		scheme v1.URIScheme
		port   string
	}{
		"http": {httptest.NewServer, "", ""}, "https": {httptest.NewTLSServer, v1.URISchemeHTTPS, ""}, "named port": {httptest.NewServer, v1.URISchemeHTTP, "web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan *http.Request, 10)
			server := c.start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
			defer server.Close()
			_, number, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			n := newNode()
			action := &v1.HTTPGetAction{Path: "quit?now=1", Scheme: c.scheme, Port: intstr.Parse(number),
				HTTPHeaders: []v1.HTTPHeader{{Name: "host", Value: "app.test"}, {Name: "X-A", Value: "b"}}}
			n.add("u", "", hooked(v1.LifecycleHandler{HTTPGet: action}), func(p *v1.Pod) {
				if c.port != "" {
					action.Port = intstr.FromString(c.port)
					web, err := strconv.Atoi(number)
					if err != nil {
						t.Fatal(err)
					}
					p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: c.port, ContainerPort: int32(web)}}
				}
			})
			ended := make(chan struct{})
			n.onStop = func(string, time.Duration) error { close(ended); return nil }
			n.fail(n.actor(t, nil), "u")
			<-ended
			r := <-got
			if r.Host != "app.test" || r.URL.Path != "/quit" || r.URL.RawQuery != "now=1" || r.Header.Get("X-A") != "b" || r.UserAgent() != "kube-lifecycle/1.36" {
				t.Errorf("got %s %s %v", r.Host, r.URL, r.Header)
			}
			if e := n.told("FailedPreStopHook"); len(e) != 0 {
				t.Errorf("events %q\n%s", e, n.logged())
			}
		})
	}
}
