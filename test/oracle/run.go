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
	// LastWords returns, by kind and container ID, the last update that a reader gets that
	// begins to read now.
	LastWords() map[string]string
	// Close stops the side. Nothing is observed any more.
	Close()
}

// Outside is the environment of a side.
type Outside struct {
	PodStatus func(types.UID) (v1.PodStatus, bool)
	// Published publishes the statuses to prober's side, which does not call PodStatus then. It
	// may be nil.
	Published *manager.StatusStore
	Run       func(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
	Event     func(ref *v1.ObjectReference, eventType, reason, message string)
	// Update is called with each update that a prompt reader gets. A key is a kind and a
	// container ID.
	Update func(key, what string)
	// Fault is called with each fault.
	Fault func(format string, args ...any)
}

// Maker makes a side. It is called inside of the bubble.
type Maker func(Outside) Side

// sampling is the time between two samples of the caches.
const sampling = 250*time.Millisecond + 5*time.Nanosecond

// Oracle plays scenarios.
type Oracle struct{ web *web }

// New returns an Oracle, which must be closed.
func New() (*Oracle, error) {
	w, err := newWeb()
	if err != nil {
		return nil, fmt.Errorf("start the servers that are probed: %w", err)
	}
	return &Oracle{w}, nil
}

// Close ends the servers that probes connect to.
func (o *Oracle) Close() { o.web.close() }

// Run plays s on one side under a fake clock of its own. The side asks for the statuses of pods.
func (o *Oracle) Run(t *testing.T, s *Scenario, makeSide Maker) *Record {
	t.Helper()
	return o.run(t, s, makeSide, nil)
}

// RunPublished is Run of our side with published statuses. asks is the record that is compared with
// the result. The status that it has after each OpSync is published before our UpdatePodStatus is
// called: a tick that is triggered there, and asks, waits for that status. Agents publish a startup
// result before that call too, by [manager.StatusStore.SetContainerStartup].
func (o *Oracle) RunPublished(t *testing.T, s *Scenario, ours Maker, asks *Record) *Record {
	t.Helper()
	return o.run(t, s, ours, asks)
}

// Diverge plays s on our side, first with statuses that it asks for, and then with published ones.
// It returns the first difference from the kubelet's record of s, nil if there is none.
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

// run plays s. If asks is not nil, the statuses are published.
func (o *Oracle) run(t *testing.T, s *Scenario, makeSide Maker, asks *Record) *Record {
	t.Helper()
	var store *manager.StatusStore
	if asks != nil {
		store = new(manager.StatusStore)
	}
	var record *Record
	synctest.Test(t, func(t *testing.T) {
		record = newRecord(s)
		runner := newRunner(s, record)
		run := o.web.enter(runner)
		defer o.web.leave(run)
		w := newWorld(s, func(kind, name string) v1.ProbeHandler { return o.web.handler(kind, run, name) }, store)
		side := makeSide(Outside{
			PodStatus: w.podStatus, Published: store, Run: runner.run,
			Event: record.event, Update: record.update, Fault: record.add,
		})
		play := &play{scenario: s, world: w, side: side, record: record, asks: asks}
		play.all(t.Context())
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
	asks     *Record // of a side that asks for statuses; nil unless they are published
	entries  []entry // of the last sample
}

func (p *play) all(ctx context.Context) {
	for _, op := range p.scenario.Ops {
		p.rest(time.Duration(op.At))
		p.do(ctx, op)
		synctest.Wait()
		p.sample()
	}
	p.rest(time.Duration(p.scenario.End))
	p.sample()
	p.record.lastWords(p.side.LastWords())
}

// rest waits until at, and samples the caches meanwhile.
func (p *play) rest(at time.Duration) {
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

// sync updates the status of a pod.
func (p *play) sync(ctx context.Context, op Op) {
	var next *v1.PodStatus
	if p.asks != nil {
		next = p.asks.synced[len(p.record.synced)]
	}
	p.world.sync(op.Pod, next, func(status *v1.PodStatus) {
		p.update(ctx, op, status)
		p.record.synced = append(p.record.synced, status.DeepCopy())
	})
}

// update calls UpdatePodStatus, and records the status.
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

// entry is what a cache has for a container.
type entry struct{ kind, id, value string }

// sample records what has changed in the caches since the last sample.
func (p *play) sample() {
	for _, id := range p.world.made[len(p.entries)/len(kinds):] {
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
