// Package managertest tests how a manager of probes handles changes of the probes of a running container.
// Any implementation of the kubelet's manager can run it. It is experimental.
//
// docs/embed/changing-probes.md describes the rules.
package managertest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Subject is a manager of probes, with the kubelet's names.
type Subject interface {
	// AddPod starts the probes of a pod. ctx limits the call only.
	AddPod(ctx context.Context, pod *v1.Pod) error
	// UpdatePod adds, changes and ends probes to match pod.
	UpdatePod(ctx context.Context, pod *v1.Pod) error
	// RemovePod ends the probes of a pod.
	RemovePod(pod *v1.Pod)
	// UpdatePodStatus sets Started and Ready of the containers in status. pod has the last published
	// status.
	UpdatePodStatus(pod *v1.Pod, status *v1.PodStatus)
}

// World is the environment of a Subject: one pod, whose container "web" is running.
type World struct {
	t       *testing.T
	subject Subject
	pod     *v1.Pod

	mu      sync.Mutex
	status  v1.PodStatus
	healthy bool          // result of attempts that begin now
	takes   time.Duration // their duration
	deaf    bool          // they ignore their context
	calls   []call
}

// call is one attempt.
type call struct {
	version string // the last word of the command
	at      time.Time
}

// PodStatus returns the last published status of the pod, which must not be modified. It returns false for
// another pod.
func (w *World) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status, uid == w.pod.UID
}

// Exec carries out an attempt of an exec probe, and returns the exit code of the command. If ctx ends
// first, it returns the error of ctx.
func (w *World) Exec(ctx context.Context, command []string) (exitCode int, err error) {
	healthy, takes, deaf := w.begin(command[len(command)-1])
	if deaf {
		time.Sleep(takes)
	} else if takes > 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-timer.C:
		}
	}
	if !healthy {
		return 1, nil
	}
	return 0, nil
}

func (w *World) begin(version string) (healthy bool, takes time.Duration, deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call{version, time.Now()})
	return w.healthy, w.takes, w.deaf
}

// TestChangedProbes runs the suite, each test with a new Subject in a bubble of [synctest]. new must return
// a Subject that gets the status of the pod and runs commands through w. It may use t.Cleanup to end its
// goroutines; the pod is removed before that. Attempts may be spread: the first must come within 10 s, and
// each further one a period after the previous one.
func TestChangedProbes(t *testing.T, new func(t *testing.T, w *World) Subject) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, r.kind)
				w.subject = new(t, w)
				defer w.subject.RemovePod(w.pod)
				r.test(w)
			})
		})
	}
}

// newWorld returns a healthy world whose container has just started. Its probe has a period of 10 s, a
// timeout of 5 s and thresholds of 1.
func newWorld(t *testing.T, kind string) *World {
	w := &World{t: t, healthy: true}
	w.pod = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web"}}, RestartPolicy: v1.RestartPolicyAlways},
	}
	*w.probe(kind) = &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check", "v1"}}},
		PeriodSeconds: 10, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 1,
	}
	w.status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
		Name: "web", ContainerID: "test://1", Started: new(kind != startup),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}}
	return w
}

// The kinds of probes.
const (
	liveness  = "liveness"
	readiness = "readiness"
	startup   = "startup"
)

// probe returns the field of the container for probes of kind.
func (w *World) probe(kind string) **v1.Probe {
	c := &w.pod.Spec.Containers[0]
	return map[string]**v1.Probe{liveness: &c.LivenessProbe, readiness: &c.ReadinessProbe, startup: &c.StartupProbe}[kind]
}

// answer sets the result and the duration of attempts that begin from now on.
func (w *World) answer(healthy bool, takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healthy, w.takes = healthy, takes
}

// start adds the pod, and waits for the end of its first attempt.
func (w *World) start() {
	w.t.Helper()
	n := len(w.attempts()) // before AddPod: the first attempt may come at once
	if err := w.subject.AddPod(w.t.Context(), w.pod.DeepCopy()); err != nil {
		w.t.Fatal(err)
	}
	w.waitAttempts(n)
	w.run(step)
}

// change updates the pod after an edit of its probe of kind.
func (w *World) change(kind string, edit func(p *v1.Probe)) {
	w.t.Helper()
	edit(*w.probe(kind))
	w.update()
}

func (w *World) update() {
	w.t.Helper()
	if err := w.subject.UpdatePod(w.t.Context(), w.pod.DeepCopy()); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// version returns an edit that changes only the command of a probe.
func version(v string) func(*v1.Probe) {
	return func(p *v1.Probe) { p.Exec = &v1.ExecAction{Command: []string{"check", v}} }
}

// step is the interval at which the status is published.
const step = 100 * time.Millisecond

// run lets d pass, and publishes the status meanwhile.
func (w *World) run(d time.Duration) {
	for range d / step {
		time.Sleep(step)
		synctest.Wait()
		w.publish()
	}
}

// publish publishes the status updated by the Subject, and returns the status of the container.
func (w *World) publish() v1.ContainerStatus {
	pod := w.pod.DeepCopy()
	pod.Status, _ = w.PodStatus(pod.UID)
	status := pod.Status.DeepCopy()
	w.subject.UpdatePodStatus(pod, status)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = *status
	return status.ContainerStatuses[0]
}

// next waits for the start of an attempt.
func (w *World) next() {
	w.t.Helper()
	w.waitAttempts(len(w.attempts()))
}

// waitAttempts waits until there are more than n attempts.
func (w *World) waitAttempts(n int) {
	w.t.Helper()
	for i := 0; len(w.attempts()) <= n; i++ {
		if i == 300 {
			w.t.Fatal("no attempt within 30s")
		}
		w.run(step)
	}
}

func (w *World) attempts() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// last returns the last attempt.
func (w *World) last() call { return w.attempts()[len(w.attempts())-1] }

func (w *World) wantReady(want bool, why string) {
	w.t.Helper()
	if got := w.publish().Ready; got != want {
		w.t.Errorf("ready %t %s", got, why)
	}
}

func (w *World) wantStarted(want bool, why string) {
	w.t.Helper()
	if got := *w.publish().Started; got != want {
		w.t.Errorf("started %t %s", got, why)
	}
}

// wantAttempts checks the number of attempts within d.
func (w *World) wantAttempts(want int, d time.Duration, why string) {
	w.t.Helper()
	n := len(w.attempts())
	w.run(d)
	if got := len(w.attempts()) - n; got != want {
		w.t.Errorf("%d attempts within %v %s, want %d", got, d, why, want)
	}
}
