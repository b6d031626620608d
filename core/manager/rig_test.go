package manager_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/internal/podtest"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// unset is the result that [rig.cached] returns for a container without an entry.
const unset = results.Result(-128)

const ms = time.Millisecond

var (
	success = probetest.Answer(probe.Success, "ok")
	failure = probetest.Answer(probe.Failure, "bad")
)

// prepared is one call of [rig.Prepare].
type prepared struct {
	name    string
	config  string
	target  probe.Target
	handler *probetest.Handler
}

// rig is a manager with its status source, handlers and recorder. It must be made inside a bubble.
type rig struct {
	t     *testing.T
	m     *manager.Manager
	store *manager.StatusStore
	start time.Time
	// handle returns the handler for a probe. If it is nil, every attempt succeeds.
	handle func(name string, config []byte) (*probetest.Handler, error)

	mu       sync.Mutex
	prepared []prepared
	events   []string
}

var (
	_ manager.Handlers = (*rig)(nil)
	_ manager.Recorder = (*rig)(nil)
)

// newRig returns a manager that is older than any period of the tests, so first ticks are not delayed.
func newRig(t *testing.T, edit ...func(*manager.Config)) *rig {
	r := newYoungRig(t, edit...)
	time.Sleep(time.Hour)
	return r
}

// newYoungRig returns a manager that was just made.
func newYoungRig(t *testing.T, edit ...func(*manager.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: new(manager.StatusStore), start: time.Now()}
	cfg := manager.Config{Status: r.store, Handlers: r, Recorder: r, Logger: slog.New(slog.DiscardHandler)}
	for _, e := range edit {
		e(&cfg)
	}
	m, err := manager.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func compat(c manager.Compat) func(*manager.Config) {
	return func(cfg *manager.Config) { cfg.Compat = c }
}

// Prepare implements [manager.Handlers].
func (r *rig) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	h := probetest.NewHandler()
	if r.handle != nil {
		var err error
		if h, err = r.handle(name, config); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared = append(r.prepared, prepared{name, string(config), target, h})
	return h, nil
}

// always makes h the handler of every probe.
func (r *rig) always(h *probetest.Handler) *probetest.Handler {
	r.handle = func(string, []byte) (*probetest.Handler, error) { return h, nil }
	return h
}

// Event implements [manager.Recorder].
func (r *rig) Event(object runtime.Object, eventtype, reason, message string) {
	ref := object.(*v1.ObjectReference)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s/%s %s %s %s: %s", ref.Namespace, ref.Name, ref.FieldPath, eventtype, reason, message))
}

func (r *rig) preparations() []prepared {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.prepared)
}

func (r *rig) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// add adds pod, and waits for its first ticks.
func (r *rig) add(pod *v1.Pod) {
	r.t.Helper()
	if err := r.m.AddPod(r.t.Context(), pod); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) update(pod *v1.Pod) {
	r.t.Helper()
	if err := r.m.UpdatePod(r.t.Context(), pod); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// keys returns the running workers as "uid/container/kind", sorted.
func (r *rig) keys() []string {
	keys := []string{}
	for _, p := range r.m.Probes() {
		keys = append(keys, fmt.Sprintf("%s/%s/%s", p.UID, p.Container, p.Kind))
	}
	slices.Sort(keys)
	return keys
}

func (r *rig) wantKeys(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := r.keys(); !slices.Equal(got, want) {
		r.t.Errorf("workers: got %v, want %v", got, want)
	}
}

func (r *rig) cached(kind probe.Kind, id string) results.Result {
	if got, ok := r.m.Results(kind).Get(id); ok {
		return got
	}
	return unset
}

func (r *rig) wantCached(kind probe.Kind, id string, want results.Result) {
	r.t.Helper()
	if got := r.cached(kind, id); got != want {
		r.t.Errorf("%s cache of %s: got %v, want %v", kind, id, got, want)
	}
}

// status returns the status of one probe.
func (r *rig) status(uid types.UID, container string, kind probe.Kind) manager.ProbeStatus {
	r.t.Helper()
	for _, p := range r.m.Probes() {
		if p.Key() == (manager.Key{PodUID: uid, Container: container, Kind: kind}) {
			return p
		}
	}
	r.t.Fatalf("no %s worker of %s in %s", kind, container, uid)
	return manager.ProbeStatus{}
}

// bubble runs a subtest in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// each runs a subtest for each kind, each in its own bubble.
func each(t *testing.T, name string, test func(t *testing.T, kind probe.Kind)) {
	t.Helper()
	for _, kind := range probe.Kinds {
		bubble(t, name+"/"+kind.String(), func(t *testing.T) { test(t, kind) })
	}
}

var (
	execProbe = podtest.Exec
	container = podtest.Container
	sidecar   = podtest.Sidecar
	setProbe  = podtest.SetProbe
	podOf     = podtest.Pod
	annotated = podtest.Annotated
)

// running returns the status of a container that has been running since now, and has started.
func running(name, id string) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, ContainerID: id, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
}

// starting returns the status of a container that has been running since now, and has not started.
func starting(name, id string) v1.ContainerStatus {
	s := running(name, id)
	s.Started = new(false)
	return s
}

func terminated(name, id string, exitCode int32) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, ContainerID: id,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exitCode}},
	}
}

func waiting(name, id string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: id, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}
}

// upFor returns the status of a container whose probe of kind is not gated.
func upFor(kind probe.Kind, name, id string) v1.ContainerStatus {
	if kind == probe.Startup {
		return starting(name, id)
	}
	return running(name, id)
}

func statusOf(containers ...v1.ContainerStatus) v1.PodStatus {
	return v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: containers}
}
