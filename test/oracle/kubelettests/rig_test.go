package kubelettests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/test/oracle"
)

func TestMain(m *testing.M) {
	oracle.SilenceKubelet()
	os.Exit(m.Run())
}

const (
	liveness  = "liveness"
	readiness = "readiness"
	startup   = "startup"
)

var kinds = []string{liveness, readiness, startup}

// initial is the result of a new container, by kind.
var initial = map[string]string{liveness: "Success", readiness: "Failure", startup: "UNKNOWN"}

// rig is one side and its environment, in a bubble.
type rig struct {
	t *testing.T
	oracle.Side
	start time.Time

	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
	output   string
	err      error             // result of commands
	takes    time.Duration     // duration of commands
	commands []string          // all commands
	ids      []string          // container IDs of all commands
	updates  map[string]string // the last update, by kind and container ID
	events   []string
	faults   []string
}

// both runs f on the kubelet's side and on ours.
func both(t *testing.T, name string, f func(t *testing.T, r *rig)) {
	t.Helper()
	bothWith(t, name, 0, f)
}

// bothWith is like both, with one more switch than the profile's.
func bothWith(t *testing.T, name string, more manager.Compat, f func(t *testing.T, r *rig)) {
	t.Helper()
	for side, maker := range map[string]oracle.Maker{"kubelet": oracle.Kubelet, "ours": oracle.Ours(oracle.Profile() | more)} {
		t.Run(name+"/"+side, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, maker)
				defer r.Close()
				f(t, r)
			})
		})
	}
}

// eachKind calls both for each of some kinds of probes.
func eachKind(t *testing.T, name string, some []string, f func(t *testing.T, r *rig, kind string)) {
	t.Helper()
	for _, kind := range some {
		both(t, name+"/"+kind, func(t *testing.T, r *rig) { f(t, r, kind) })
	}
}

func newRig(t *testing.T, maker oracle.Maker) *rig {
	r := &rig{t: t, start: time.Now(), statuses: make(map[types.UID]v1.PodStatus), updates: make(map[string]string)}
	r.Side = maker(oracle.Outside{
		PodStatus: r.podStatus, Run: r.run, Event: r.event,
		Update: func(key, text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.updates[key], _, _ = strings.Cut(text, " ")
		},
		Fault: func(format string, args ...any) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.faults = append(r.faults, fmt.Sprintf(format, args...))
		},
	})
	return r
}

func (r *rig) podStatus(uid types.UID) (v1.PodStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.statuses[uid]
	return *s.DeepCopy(), ok
}

func (r *rig) run(ctx context.Context, id string, cmd []string, _ time.Duration) ([]byte, error) {
	r.mu.Lock()
	r.commands, r.ids = append(r.commands, strings.Join(cmd, " ")), append(r.ids, id)
	output, takes, err := r.output, r.takes, r.err
	r.mu.Unlock()
	if takes == 0 {
		return []byte(output), err
	}
	select {
	case <-time.After(takes):
		return []byte(output), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *rig) event(_ *v1.ObjectReference, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s", eventType, reason, message))
}

// settle waits until the manager is older than any period, so that it probes added pods at once.
func (r *rig) settle() { time.Sleep(time.Hour) }

// wait sleeps for d, and waits until all goroutines are blocked.
func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) add(pod *v1.Pod) {
	r.AddPod(r.t.Context(), pod)
	synctest.Wait()
}

// answer sets the output and the error of later commands. A nil error is exit code 0.
func (r *rig) answer(output string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output, r.err = output, err
}

func (r *rig) setStatus(uid types.UID, s *v1.PodStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.statuses, uid)
	if s != nil {
		r.statuses[uid] = *s.DeepCopy()
	}
}

// commandsIn returns the different commands that are run within d.
func (r *rig) commandsIn(d time.Duration) []string {
	r.mu.Lock()
	r.commands = nil
	r.mu.Unlock()
	r.wait(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.commands)
	return slices.Compact(r.commands)
}

// observations has the observations of a rig so far.
type observations struct {
	commands, ids, events, faults []string
	updates                       map[string]string
}

// observe waits until no attempt is running, and returns the observations.
func (r *rig) observe() observations {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return observations{slices.Clone(r.commands), slices.Clone(r.ids), slices.Clone(r.events), slices.Clone(r.faults), maps.Clone(r.updates)}
}

func (r *rig) wantUpdate(kind, id, want string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.updates[kind+" "+id]; got != want {
		r.t.Errorf("the last update of %s in %s was %q, want %q", kind, id, got, want)
	}
}

func (r *rig) wantCached(kind, id, want string) {
	r.t.Helper()
	if got := r.Cached(kind, id); got != want {
		r.t.Errorf("the cache has %q of %s in %s, want %q", got, kind, id, want)
	}
}

func (r *rig) wantEvents(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.events, want) {
		r.t.Errorf("events %q, want %q", r.events, want)
	}
}

// exit is the error of a command with an exit code, as both sides expect it.
type exit int

func (e exit) Error() string   { return fmt.Sprintf("exit code %d", int(e)) }
func (e exit) String() string  { return e.Error() }
func (e exit) Exited() bool    { return true }
func (e exit) ExitStatus() int { return int(e) }

var errBroken = errors.New("broken")

const (
	uid     = types.UID("uid")
	first   = "test://web-1"
	second  = "test://web-2"
	another = "test://other-1"
)

// podWith returns a pod with the restart policy Never and one exec probe, whose command is the kind.
func podWith(kind string, change ...func(*v1.Pod, *v1.Probe)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "web"}}},
	}
	p := execProbe(kind)
	setProbe(&pod.Spec.Containers[0], kind, p)
	for _, f := range change {
		f(pod, p)
	}
	return pod
}

func execProbe(command ...string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}},
		TimeoutSeconds: 1, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
}

func setProbe(c *v1.Container, kind string, p *v1.Probe) {
	switch kind {
	case liveness:
		c.LivenessProbe = p
	case readiness:
		c.ReadinessProbe = p
	case startup:
		c.StartupProbe = p
	}
}

// thresholds returns a change of podWith that sets the thresholds of the probe.
func thresholds(success, failure int32) func(*v1.Pod, *v1.Probe) {
	return func(_ *v1.Pod, p *v1.Probe) { p.SuccessThreshold, p.FailureThreshold = success, failure }
}

// sidecar is a change of podWith: it makes the container a sidecar, and adds another container.
func sidecar(pod *v1.Pod, _ *v1.Probe) {
	c := pod.Spec.Containers[0]
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []v1.Container{c}
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
}

// statusOf returns the status of a running pod with containers.
func statusOf(containers ...v1.ContainerStatus) *v1.PodStatus {
	return &v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: containers}
}

// running returns the status of a container that was started now, in which a probe of a kind makes attempts.
func running(kind, id string) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: "web", ContainerID: id, Started: new(kind != startup),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
}

// stopped returns the status of a container that has exited with a code, or is waiting if code is nil.
func stopped(kind, id string, code *int32) v1.ContainerStatus {
	c := running(kind, id)
	c.State = v1.ContainerState{}
	if code != nil {
		c.State.Terminated = &v1.ContainerStateTerminated{ExitCode: *code}
	}
	return c
}
