package engine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// kubelet is the compatibility profile without any fix.
const kubelet = probe.CompatKubeletV1_36

// unset is the result that [rig.cached] returns for a container without an entry.
const unset = results.Result(-128)

// rig is one worker with its caches, handler, source and observer. It must be made inside a bubble.
type rig struct {
	t       *testing.T
	shared  engine.Shared
	cfg     engine.Config
	handler *probetest.Handler
	w       *engine.Worker
	start   time.Time

	mu      sync.Mutex
	state   worker.State
	ticks   []worker.Tick
	skipped map[worker.SkipReason]int
	events  []string
	gates   []worker.Gate
	ended   int
	drained int
	closed  int
}

var (
	_ worker.Source       = (*rig)(nil)
	_ worker.GateObserver = (*rig)(nil)
	_ engine.Owner        = (*rig)(nil)
)

// newRig prepares a worker for a running container. The container has started, unless the probe is a
// startup probe. The period is 1 s, the timeout 500 ms, and every threshold 1.
func newRig(t *testing.T, kind probe.Kind, steps ...probetest.Step) *rig {
	r := &rig{t: t, handler: probetest.NewHandler(steps...), skipped: make(map[worker.SkipReason]int), start: time.Now()}
	for _, k := range probe.Kinds {
		r.shared.Results[k] = results.New(k)
	}
	r.shared.AgentStart, r.shared.RestartGrace = time.Now(), 10*time.Second
	r.shared.Logger = slog.New(slog.DiscardHandler)
	r.shared.Event = func(_ *engine.Worker, reason worker.EventReason, message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, fmt.Sprintf("%s: %s", reason, message))
	}
	r.state = worker.State{
		Found: true, ContainerID: "c1", Running: true, StartedAt: time.Now(),
		Started: kind != probe.Startup, PodIP: "10.0.0.1",
	}
	r.cfg = engine.Config{
		Setup: engine.Setup{
			Spec:    probe.Spec{Period: time.Second, Timeout: 500 * time.Millisecond, SuccessThreshold: 1, FailureThreshold: 1},
			Handler: r.handler, Name: "fake",
		},
		Kind: kind,
		Task: &worker.Task{
			Subject: results.Subject{Namespace: "ns", Pod: "pod", PodUID: "uid", Container: "web"},
			Pod:     &probe.Pod{Namespace: "ns", Name: "pod", UID: "uid"}, Container: &probe.Container{Name: "web"}, Source: r,
		},
		Observer: r,
		Owner:    r,
	}
	return r
}

// run starts the worker, and waits for the end of its first tick if it is due.
func (r *rig) run() *rig {
	r.t.Helper()
	r.w = engine.New(&r.shared, r.cfg)
	r.w.Start()
	r.t.Cleanup(r.w.Stop)
	synctest.Wait()
	return r
}

// wait waits for d, and until all events that are due then have ended.
func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// tick waits for one period.
func (r *rig) tick() { r.wait(r.w.Status().Spec.Period) }

// does makes the next calls of the handler follow steps.
func (r *rig) does(steps ...probetest.Step) { r.handler.Then(steps...) }

func (r *rig) become(change func(*worker.State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
}

// restart gives the container a new ID, as a restart does.
func (r *rig) restart(id string) {
	r.become(func(s *worker.State) {
		s.ContainerID, s.StartedAt = id, time.Now()
	})
}

// State implements [worker.Source].
func (r *rig) State() worker.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Tick implements [worker.ProbeObserver].
func (r *rig) Tick(t *worker.Tick) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, *t)
}

// Skipped implements [worker.ProbeObserver].
func (r *rig) Skipped(reason worker.SkipReason, ticks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped[reason] += ticks
}

// Close implements [worker.ProbeObserver].
func (r *rig) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
}

// Gated implements [worker.GateObserver].
func (r *rig) Gated(gate worker.Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gates = append(r.gates, gate)
}

// Ended implements [worker.Owner].
func (r *rig) Ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
}

// Drained implements [worker.Owner].
func (r *rig) Drained() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drained++
}

// cached returns the cached result of the container called id.
func (r *rig) cached(id string) results.Result {
	if got, ok := r.shared.Results[r.cfg.Kind].Get(id); ok {
		return got
	}
	return unset
}

func (r *rig) wantCached(want results.Result) {
	r.t.Helper()
	if got := r.cached(r.State().ContainerID); got != want {
		r.t.Errorf("cache: got %v, want %v", got, want)
	}
}

func (r *rig) wantRun(run int, hold bool) {
	r.t.Helper()
	if s := r.w.Status(); s.Run != run || s.OnHold != hold {
		r.t.Errorf("run %d, on hold %v; want %d, %v", s.Run, s.OnHold, run, hold)
	}
}

func (r *rig) wantCalls(want int) {
	r.t.Helper()
	if got := r.handler.Count(); got != want {
		r.t.Errorf("%d attempts, want %d", got, want)
	}
}

// wantEnded checks whether the worker has ended by itself.
func (r *rig) wantEnded(want bool) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.ended > 0; got != want {
		r.t.Errorf("ended: %v, want %v", got, want)
	}
	if r.ended > 1 || r.closed > 1 || want && r.closed == 0 {
		r.t.Errorf("ended %d times, observer closed %d times", r.ended, r.closed)
	}
}

// callTimes returns the start times of the attempts, relative to the rig's creation.
func (r *rig) callTimes() (times []time.Duration) {
	for _, c := range r.handler.Calls() {
		times = append(times, c.Start.Sub(r.start))
	}
	return times
}

func (r *rig) lastTick() worker.Tick {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ticks) == 0 {
		r.t.Fatal("no tick was observed")
	}
	return r.ticks[len(r.ticks)-1]
}

// closes returns how often the observer was closed.
func (r *rig) closes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *rig) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *rig) skips(reason worker.SkipReason) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped[reason]
}

// bubble runs a subtest in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// each runs a subtest for each kind, each in its own bubble.
func each(t *testing.T, name string, test func(t *testing.T, kind probe.Kind)) {
	t.Helper()
	some(t, name, probe.Kinds[:], test)
}

func some(t *testing.T, name string, kinds []probe.Kind, test func(t *testing.T, kind probe.Kind)) {
	t.Helper()
	for _, kind := range kinds {
		bubble(t, name+"/"+kind.String(), func(t *testing.T) { test(t, kind) })
	}
}

// initial returns the initial result of a kind, as in the kubelet.
func initial(kind probe.Kind) results.Result {
	return map[probe.Kind]results.Result{
		probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown,
	}[kind]
}

var (
	success = probetest.Answer(probe.Success, "ok")
	failure = probetest.Answer(probe.Failure, "bad")
	warning = probetest.Answer(probe.Warning, "hm")
	unknown = probetest.Answer(probe.Unknown, "")
)
