package manager_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// lender prepares handlers, and counts their releases.
type lender struct {
	mu      sync.Mutex
	lent    map[*loan]bool
	twice   bool
	secrets []string // secrets as redacted by the handlers
}

type loan struct{ of *lender }

func (l *lender) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &loan{l}
	l.lent[n] = true
	return n, nil
}

func (*loan) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

func (n *loan) Release() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.twice = n.of.twice || !n.of.lent[n]
	delete(n.of.lent, n)
}

func (n *loan) KeepSecret(redact func(string) string) {
	n.of.secrets = append(n.of.secrets, redact("it is hunter22"))
}

func (l *lender) count(t *testing.T, when string, want int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lent) != want || l.twice {
		t.Errorf("%s: %d handlers are lent, want %d; one was released twice: %v", when, len(l.lent), want, l.twice)
	}
}

func TestHandlersAreReleased(t *testing.T) {
	l := &lender{lent: make(map[*loan]bool)}
	m, err := manager.New(manager.Config{
		Status: new(manager.StatusStore), Handlers: l, ResolveSecret: func(string, string) (string, error) { return "hunter22", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(annotation string) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}}}
		p.UID, p.Name = "u", "p"
		p.Annotations = map[string]string{declared.Annotation: annotation}
		return p
	}
	do := func(when string, act func(context.Context, *v1.Pod, ...manager.ProbeConfig) error, annotation string, want int) {
		t.Helper()
		if err := act(t.Context(), pod(annotation)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		l.count(t, when, want)
	}
	const two = `{web: {readiness: {plugin: {name: a, config: {x: "${env:X}"}}}, liveness: {plugin: {name: a}}}}`
	do("added", m.AddPod, two, 2)
	do("added again", m.AddPod, two, 2)
	do("a new config", m.UpdatePod, strings.Replace(two, "{name: a}", "{name: a, config: {y: 1}}", 1), 2)
	do("a new period", m.UpdatePod, strings.Replace(two, "{name: a}}", "{name: a}, period: 5s}", 1), 2)
	do("one is removed", m.UpdatePod, `{web: {readiness: {plugin: {name: a}}}}`, 1)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	l.count(t, "closed", 0)
	if len(l.secrets) != 1 || l.secrets[0] != "it is [redacted]" {
		t.Errorf("got %q", l.secrets)
	}
	if err := m.AddPod(t.Context(), pod(two)); err == nil {
		t.Error("a closed manager took a pod")
	}
	l.count(t, "added too late", 0)
}

// panics is a registry with one handler that panics in Prepare.
type panics struct{ lender *lender }

func (p panics) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	if name == "broken" {
		panic("with " + string(config))
	}
	return p.lender.Prepare(name, config, target)
}

// A panic in Prepare affects only its own probe.
func TestPreparePanicAffectsOnlyItsProbe(t *testing.T) {
	var log strings.Builder
	l := &lender{lent: make(map[*loan]bool)}
	m, err := manager.New(manager.Config{
		Status: new(manager.StatusStore), Handlers: panics{l}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		ResolveSecret: func(string, string) (string, error) { return "hunter22", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}}}
	p.UID, p.Name = "u", "p"
	p.Annotations = map[string]string{declared.Annotation: `{web: {readiness: {plugin: {name: broken, config: {x: "${env:X}"}}}, liveness: {plugin: {name: a}}}}`}
	const want = `handler "broken": panic: with {"x":"[redacted]"}`
	for name, act := range map[string]func(context.Context, *v1.Pod, ...manager.ProbeConfig) error{"AddPod": m.AddPod, "UpdatePod": m.UpdatePod} {
		if err := act(t.Context(), p); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s", name, err, want)
		}
	}
	l.count(t, "beside it", 1)
	if text := log.String(); !strings.Contains(text, `handler \"broken\"`) || !strings.Contains(text, "Prepare(") || strings.Contains(text, "hunter22") {
		t.Errorf("the log says %s", text)
	}
}
