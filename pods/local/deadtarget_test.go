package local_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
)

// patient is an agent with one external target, in a synctest bubble. It is the handler of all probes, and
// records events and restarts.
type patient struct {
	pods    *local.Pods
	manager *manager.Manager
	dead    atomic.Bool

	mu       sync.Mutex
	events   []string
	restarts []pods.Restart
}

// Prepare implements [manager.Handlers].
func (p *patient) Prepare(string, []byte, probe.Target) (probe.Handler, error) { return p, nil }

// Probe implements [probe.Handler].
func (p *patient) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	if p.dead.Load() {
		return probe.Outcome{Result: probe.Failure, Output: "dead"}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// Event implements [manager.Recorder].
func (p *patient) Event(_ runtime.Object, _, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, reason+" "+message)
}

// newPatient runs text until the test ends or end is called.
func newPatient(t *testing.T, compat manager.Compat, stateDir, text string, configure ...func(*pods.Host)) (p *patient, end func()) {
	t.Helper()
	p = &patient{}
	host := testHost()
	for _, f := range configure {
		f(&host)
	}
	host.Recorder = p
	host.Restarted = func(r pods.Restart) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.restarts = append(p.restarts, r)
	}
	pods, err := local.New(local.Config{RestartBackoff: time.Second, StateDir: stateDir}, host)
	if err != nil {
		t.Fatal(err)
	}
	p.pods = pods
	p.manager, err = manager.New(manager.Config{Status: pods, Handlers: p, Recorder: p, RestartGrace: local.RestartGrace, Compat: compat})
	if err != nil {
		t.Fatal(err)
	}
	pods.Start(p.manager)
	if err := pods.Apply(t.Context(), load(t, text)); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := pods.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := p.manager.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return p, end
}

// wait waits for d, and returns the status and the decided result of the container.
func (p *patient) wait(d time.Duration, kind probe.Kind) (v1.ContainerStatus, results.Result) {
	time.Sleep(d)
	synctest.Wait()
	pod := p.pods.Pods()[0]
	s := status(&pod, "c")
	r, ok := p.manager.Results(kind).Get(s.ContainerID)
	if !ok {
		r = results.Unknown
	}
	return s, r
}

const patientPod = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      c:
        KIND: {tcpSocket: {port: 1}, period: 1s, failureThreshold: 2}
spec:
  containers:
  - {name: c}
`

func TestDeadExternalTargetStaysFailure(t *testing.T) {
	for _, kind := range []probe.Kind{probe.Liveness, probe.Startup} {
		for name, compat := range map[string]manager.Compat{"default": 0, "kubelet-1.36": manager.KubeletV1_36} {
			t.Run(kind.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, _ := newPatient(t, compat, "", strings.ReplaceAll(patientPod, "KIND", kind.String()))
					p.dead.Store(true)
					first, _ := p.wait(5*time.Second, kind)
					for range 1000 {
						s, r := p.wait(300*time.Millisecond, kind)
						if r != results.Failure || s.ContainerID != first.ContainerID || s.RestartCount != 0 || s.State.Running == nil {
							t.Fatalf("decided %v of %s", r, s.String())
						}
						if started := *s.Started; started != (kind == probe.Liveness) {
							t.Fatalf("started: %v", started)
						}
					}
					p.dead.Store(false)
					if s, r := p.wait(2*time.Second, kind); r != results.Success || !*s.Started || s.ContainerID != first.ContainerID {
						t.Errorf("once it is well again: decided %v of %s", r, s.String())
					}
					p.wantNoRestart(t)
				})
			})
		}
	}
}

// wantNoRestart fails the test for restarts, and for events other than failed attempts.
func (p *patient) wantNoRestart(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.restarts) > 0 {
		t.Errorf("restarts: %v", p.restarts)
	}
	other := slices.DeleteFunc(slices.Clone(p.events), func(e string) bool { return strings.HasSuffix(e, " probe failed: dead") })
	if len(p.events) == 0 || len(other) > 0 {
		t.Errorf("%d events, among them %q", len(p.events), other)
	}
}

func TestDeadExternalTargetStaysFailureAfterAgentRestart(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(patientPod, "KIND", "liveness")
	var id string
	synctest.Test(t, func(t *testing.T) {
		p, end := newPatient(t, 0, dir, text)
		p.dead.Store(true)
		s, r := p.wait(5*time.Second, probe.Liveness)
		if id = s.ContainerID; r != results.Failure {
			t.Errorf("decided %v", r)
		}
		end()

		p, _ = newPatient(t, 0, dir, text)
		p.dead.Store(true)
		for range 100 {
			if s, r := p.wait(100*time.Millisecond, probe.Liveness); r != results.Failure || s.ContainerID != id {
				t.Fatalf("decided %v of %s", r, s.String())
			}
		}
		p.dead.Store(false)
		if _, r := p.wait(2*time.Second, probe.Liveness); r != results.Success {
			t.Errorf("once it is well again: decided %v", r)
		}
		p.wantNoRestart(t)
	})
}

// With a new address, the probes of a target start again, without a restart.
func TestChangedExternalTargetGetsNewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.ReplaceAll(patientPod, "KIND", "liveness")
		p, _ := newPatient(t, 0, "", text)
		p.dead.Store(true)
		before, _ := p.wait(5*time.Second, probe.Liveness)
		moved := strings.Replace(text, "  annotations:\n", "  annotations:\n    prober.dev/address: 192.0.2.1\n", 1)
		p.dead.Store(false)
		if err := p.pods.Apply(t.Context(), load(t, moved)); err != nil {
			t.Fatal(err)
		}
		s, r := p.wait(2*time.Second, probe.Liveness)
		if r != results.Success || s.ContainerID == before.ContainerID || s.RestartCount != 0 {
			t.Errorf("decided %v of %s", r, s.String())
		}
		p.wantNoRestart(t)
	})
}
