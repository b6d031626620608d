package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/pods"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memoryPod returns a pod with one container, whose probe sends requests to w.
func memoryPod(name string, w *target, password string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Annotations: map[string]string{
			declared.Annotation: fmt.Sprintf("web: {readiness: {httpGet: {port: %d, httpHeaders: [{name: X-Password, value: %q}]}, period: 20ms, timeout: 1m}}", w.port(), password),
		}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}},
	}
}

// An agent with a source other than pods/local probes pods, serves the API, reloads, and watches secrets.
func TestPodSourceInMemory(t *testing.T) {
	t.Parallel()
	web, dir := newTarget(t), t.TempDir()
	secret := filepath.Join(dir, "password")
	write(t, secret, "one")
	source := agent.NewMemory(memoryPod("one", web, "${file:"+secret+"}"))
	r := start(t, "", func(c *agent.Config) { c.Source = source.Open })
	events := r.stream()
	awaitProbe(t, events, "the first pod is ready", func(p *streamedProbe) bool { return p.Pod == "one" && ready(p) })
	r.lines.await(t, 0, "pods applied", "cause=start", "pods=1")
	if status, body := r.do("GET", "/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
	var shown v1.PodList
	if r.get("/api/v1/pods", &shown); len(shown.Items) != 1 || shown.Items[0].Status.Phase != v1.PodRunning {
		t.Errorf("pods: %+v", shown)
	}
	write(t, secret, "two")
	_, next := r.lines.await(t, 0, "secret changed", secret)
	r.lines.await(t, next, "pods applied", `cause="changed files"`)

	two := memoryPod("two", web, "")
	source.Set(two)
	r.reload()
	awaitProbe(t, events, "the second pod is ready", func(p *streamedProbe) bool { return p.Pod == "two" && ready(p) })
	var probes struct{ Items []streamedProbe }
	if r.get("/api/v1/probes", &probes); len(probes.Items) != 1 {
		t.Errorf("%d probes, want that of the second pod", len(probes.Items))
	}
	if status, body := r.do("POST", "/api/v1/probes/default/two/web/readiness/pause"); status != http.StatusOK {
		t.Errorf("pause: %d %s", status, body)
	}

	bad := two.DeepCopy()
	bad.Annotations[declared.Annotation] = "web: {readiness: {plugin: {name: htpp}}}"
	source.Set(bad)
	if err := r.agent.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `unknown handler "htpp"`) {
		t.Errorf("reload: %v", err)
	}
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[!]reload failed") {
		t.Errorf("readyz: %s", body)
	}
}

// A source of a node applies pods after each change. The log has the first attempt, and attempts whose error
// differs from the previous one.
func TestRoutineAttemptsAreLoggedIfErrorDiffers(t *testing.T) {
	t.Parallel()
	source := agent.NewMemory()
	var host pods.Host
	r := start(t, "", func(c *agent.Config) {
		c.PollInterval = time.Hour
		c.Source = func(ctx context.Context, h pods.Host) (pods.Source, error) {
			host = h
			return source.Open(ctx, h)
		}
	})
	_, next := r.lines.await(t, 0, "pods applied", "cause=start")
	apply := func(cause string, err error) {
		t.Helper()
		host.Begin()
		if got := host.Applied(t.Context(), pods.Reload{Cause: cause, Routine: true}, nil, err); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	bad := errors.New("shop/web: unknown handler")
	apply("one", nil)
	apply("two", bad)
	apply("three", bad)
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[!]reload applied in part at ") || !strings.Contains(body, ": shop/web: unknown handler\n") {
		t.Errorf("readyz: %s", body)
	}
	apply("four", nil)
	apply("five", nil)
	_, next = r.lines.await(t, next, "level=ERROR", "pods were applied in part", "cause=two", bad.Error())
	r.lines.await(t, next, "level=INFO", "pods applied", "cause=four")
	for _, cause := range []string{"one", "three", "five"} {
		if r.lines.has("level=INFO", "cause="+cause) || r.lines.has("level=ERROR", "cause="+cause) {
			t.Errorf("the attempt %s is no news", cause)
		}
	}
}

func TestExecProbeWithoutRunnerIsError(t *testing.T) {
	t.Parallel()
	pod := memoryPod("one", newTarget(t), "")
	pod.Annotations[declared.Annotation] = "web: {readiness: {exec: {command: [\"true\"]}, period: 20ms}}"
	r := start(t, "", func(c *agent.Config) { c.Source, c.PollInterval = agent.NewMemory(pod).Open, time.Hour })
	awaitProbe(t, r.stream(), "an error", func(p *streamedProbe) bool {
		return p.Last != nil && strings.Contains(p.Last.Error, "the source of pods cannot run commands in containers")
	})
}

// changes is a reader of states that keeps the first changes.
type changes chan states.Change

func (c changes) Changed(change *states.Change) {
	select {
	case c <- *change:
	default:
	}
}

func everywhere(string, netns.To) error { return nil }

func nodeCounts() agentmetrics.NodeCounts {
	return agentmetrics.NodeCounts{PatchesDenied: 3, Followed: 5, Refused: 2, BreakerOpen: true, Withheld: map[string]uint64{"budget": 4}, Done: map[string]uint64{"evict": 1}}
}

// A source may also offer a reader of states, warnings for the agent, and metrics.
func TestPodSourceOfNode(t *testing.T) {
	t.Parallel()
	told := make(changes, 10)
	r := start(t, "", func(c *agent.Config) {
		c.Source = agent.NewMemory(memoryPod("one", newTarget(t), "")).With(func(s *pods.Source) {
			s.States, s.Guard, s.NodeCounts = told, everywhere, nodeCounts
			s.Troubles = func() []pods.Trouble {
				return []pods.Trouble{{Name: "api server", Text: "pods cannot be watched:\nconnection refused"}}
			}
		})
	})
	select {
	case c := <-told:
		if c.To != states.Success || c.Info.Pod != "one" {
			t.Errorf("got %+v", c)
		}
	case <-time.After(patience):
		t.Fatal("the source is told no state")
	}
	status, body := r.do("GET", "/readyz?verbose")
	for until := time.Now().Add(patience); status != http.StatusOK && time.Now().Before(until); { // a probe may tick before all pods are applied
		status, body = r.do("GET", "/readyz?verbose")
	}
	if status != http.StatusOK || !strings.Contains(body, "[!]api server pods cannot be watched:; connection refused\n") {
		t.Errorf("readyz: %d %s", status, body)
	}
	_, text := r.do("GET", "/metrics")
	for _, line := range []string{
		`prober_node_patches_total{result="denied"} 3`, `prober_node_pods{state="valid"} 3`, `prober_node_pods{state="invalid"} 2`,
		`prober_node_breaker_open 1`, `prober_node_actions_withheld_total{reason="budget"} 4`, `prober_node_actions_total{mode="evict",result="done"} 1`,
		`prober_node_actions_total{mode="restart",result="failed"} 0`, `prober_node_patches_pending 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

func TestPodSourceIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*pods.Source)
		want   string
	}{
		"no status":    {func(s *pods.Source) { s.Status = nil }, "Status, Start, Stop, Pods and Watch are required"},
		"no end":       {func(s *pods.Source) { s.Stop = nil }, "Status, Start, Stop, Pods and Watch are required"},
		"node":         {func(s *pods.Source) { s.NodeCounts = nodeCounts }, "requires a Guard"},
		"guarded node": {func(s *pods.Source) { s.NodeCounts, s.Guard = nodeCounts, everywhere }, ""},
		"smallest":     {func(*pods.Source) {}, ""},
		"named node": {func(s *pods.Source) {
			s.NodeCounts, s.Guard = nodeCounts, everywhere
			s.OwnName = func(string, string) bool { return true }
		}, "cannot have OwnName"},
		"guard, no net": {func(s *pods.Source) { s.Guard = everywhere }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := agent.New(t.Context(), agent.Config{Source: agent.NewMemory().With(c.change), Listen: "127.0.0.1:0"})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err == nil {
				ended, end := context.WithCancel(t.Context())
				end()
				if err := a.Run(ended); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A guard also applies to pods without a network of their own, and to sources without networks.
func TestPodSourceGuard(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(c *agent.Config) {
		c.Source = agent.NewMemory(memoryPod("one", newTarget(t), "")).With(func(s *pods.Source) {
			s.Guard = func(uid string, to netns.To) error { return fmt.Errorf("refused for %s", uid) }
		})
	})
	awaitProbe(t, r.stream(), "a refusal", func(p *streamedProbe) bool {
		return p.Last != nil && strings.Contains(p.Last.Output+p.Last.Error, "refused for uid-one")
	})
}
