package oracle

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/manager"
)

// Side is one implementation of the kubelet's probe manager.
type Side interface {
	AddPod(ctx context.Context, pod *v1.Pod)
	StopLivenessAndStartup(pod *v1.Pod)
	RemovePod(pod *v1.Pod)
	CleanupPods(desired map[types.UID]sets.Empty)
	UpdatePodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus)
	// Cached returns the result of a container in the cache of a kind ("liveness",
	// "readiness", "startup"): "Success", "Failure", "UNKNOWN", or "" if there is none.
	Cached(kind, containerID string) string
	// LastUpdates returns the last update of each kind and container ID that a reader gets if it begins
	// to read now.
	LastUpdates() map[string]string
	// Close stops the side.
	Close()
}

// Outside is the environment of a side.
type Outside struct {
	PodStatus func(types.UID) (v1.PodStatus, bool)
	// Published publishes the statuses to prober's side, which does not call PodStatus then. It is nil
	// for the kubelet, and if prober's side must call PodStatus.
	Published *manager.StatusStore
	Run       func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
	Event     func(ref *v1.ObjectReference, eventType, reason, message string)
	// Update is called with each update that a prompt reader gets. key is the kind and the container ID.
	Update func(key, text string)
	// Fault is called with each fault that a side itself finds.
	Fault func(format string, args ...any)
}

// Maker makes a side. It is called in the bubble of the run, see [synctest.Test].
type Maker func(Outside) Side

// sampling is the time between two samples of the caches.
const sampling = 250*time.Millisecond + 5*time.Nanosecond

// Oracle runs scenarios.
type Oracle struct{ web *web }

// New returns an Oracle. The caller must close it.
func New() (*Oracle, error) {
	w, err := newWeb()
	if err != nil {
		return nil, fmt.Errorf("start the servers that are probed: %w", err)
	}
	return &Oracle{w}, nil
}

// Close stops the servers that network probes connect to.
func (o *Oracle) Close() { o.web.close() }

// Run runs s on one side under its own fake clock. The side calls PodStatus for the statuses of pods.
func (o *Oracle) Run(t *testing.T, s *Scenario, makeSide Maker) *Record {
	t.Helper()
	return o.run(t, s, makeSide, nil)
}

// RunPublished runs s on our side with published statuses. called is a record of a side that calls
// PodStatus, with which the result will be compared. Its status after each OpSync is published before our
// UpdatePodStatus is called, because a tick that UpdatePodStatus triggers would get that status from
// PodStatus. Agents also publish a startup result before that call, by
// [manager.StatusStore.SetContainerStartup].
func (o *Oracle) RunPublished(t *testing.T, s *Scenario, ours Maker, called *Record) *Record {
	t.Helper()
	return o.run(t, s, ours, called)
}

// Diverge runs s on our side, first with PodStatus, and then with published statuses. It returns the first
// difference from the kubelet's record of s, or nil if there is none.
func (o *Oracle) Diverge(t *testing.T, s *Scenario, kubelet *Record, ours Maker) *Divergence {
	t.Helper()
	if d := Compare(kubelet, o.Run(t, s, ours)); d != nil {
		return d
	}
	d := Compare(kubelet, o.RunPublished(t, s, ours, kubelet))
	if d != nil {
		d.Published = true
	}
	return d
}

// run runs s. If called is not nil, the statuses are published.
func (o *Oracle) run(t *testing.T, s *Scenario, makeSide Maker, called *Record) *Record {
	t.Helper()
	var store *manager.StatusStore
	if called != nil {
		store = new(manager.StatusStore)
	}
	var record *Record
	synctest.Test(t, func(t *testing.T) {
		record = newRecord(s)
		runner := newRunner(s, record)
		run := o.web.add(runner)
		defer o.web.remove(run)
		w := newWorld(s, func(kind, name string) v1.ProbeHandler { return o.web.handler(kind, run, name) }, store)
		side := makeSide(Outside{
			PodStatus: w.podStatus, Published: store, Run: runner.run,
			Event: record.event, Update: record.update, Fault: record.add,
		})
		play := &play{scenario: s, world: w, side: side, record: record, called: called}
		play.run(t.Context())
		record.close()
		side.Close()
	})
	return record
}

// play is one run of a scenario.
type play struct {
	scenario *Scenario
	world    *world
	side     Side
	record   *Record
	called   *Record // record of a side that calls PodStatus; nil unless statuses are published
	entries  []entry // the caches at the last sample
}

func (p *play) run(ctx context.Context) {
	for _, op := range p.scenario.Ops {
		p.waitUntil(time.Duration(op.At))
		p.do(ctx, op)
		synctest.Wait()
		p.sample()
	}
	p.waitUntil(time.Duration(p.scenario.End))
	p.sample()
	p.record.lastUpdates(p.side.LastUpdates())
}

// waitUntil waits until at, and samples the caches in the meantime.
func (p *play) waitUntil(at time.Duration) {
	for {
		next := (p.record.now()/sampling + 1) * sampling
		time.Sleep(min(next, at) - p.record.now())
		synctest.Wait()
		if next >= at {
			return
		}
		p.sample()
	}
}

func (p *play) do(ctx context.Context, op Op) {
	switch op.Do {
	case OpAdd:
		p.side.AddPod(ctx, p.world.object(op))
	case OpStop:
		p.side.StopLivenessAndStartup(p.world.object(op))
	case OpRemove:
		p.side.RemovePod(p.world.object(op))
	case OpCleanup:
		desired := make(map[types.UID]sets.Empty)
		for _, i := range op.Keep {
			desired[podUID(i)] = sets.Empty{}
		}
		p.side.CleanupPods(desired)
	case OpPeek:
		p.update(ctx, op, p.world.pods[op.Pod].status.DeepCopy())
	case OpSync:
		p.sync(ctx, op)
	default:
		p.world.change(op)
	}
}

// sync applies an OpSync.
func (p *play) sync(ctx context.Context, op Op) {
	var next *v1.PodStatus
	if p.called != nil {
		next = p.called.synced[len(p.record.synced)]
	}
	p.world.sync(op.Pod, next, func(status *v1.PodStatus) {
		p.update(ctx, op, status)
		p.record.synced = append(p.record.synced, status.DeepCopy())
	})
}

// update calls UpdatePodStatus, and records the resulting status.
func (p *play) update(ctx context.Context, op Op, status *v1.PodStatus) {
	p.side.UpdatePodStatus(ctx, p.world.object(op), status)
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		started := "unset"
		if c.Started != nil {
			started = fmt.Sprint(*c.Started)
		}
		p.record.add("status of p%d %s: started %s, ready %v", op.Pod, c.Name, started, c.Ready)
	}
}

// entry is the result of a container in a cache.
type entry struct{ kind, id, value string }

// sample records the changes of the caches since the last sample.
func (p *play) sample() {
	for _, id := range p.world.ids[len(p.entries)/len(kinds):] {
		for _, kind := range kinds {
			p.entries = append(p.entries, entry{kind: kind, id: id})
		}
	}
	for i := range p.entries {
		e := &p.entries[i]
		if now := p.side.Cached(e.kind, e.id); now != e.value && p.record.cached(e.kind+" "+e.id, now) {
			e.value = now
		}
	}
}
