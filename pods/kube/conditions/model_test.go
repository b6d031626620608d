package conditions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
)

// model is a node: the states of its probes, an API server with a lagging informer, and a writer
// that is sometimes restarted.
type model struct {
	*server
	random   *rand.Rand
	pods     []conditions.Pod // as known to the agent; guarded by mu of the server
	writer   *conditions.Writer
	stop     func()
	lag      time.Duration // maximum lag of the informer
	mayFail  bool
	faults   int
	restarts int
}

// newModel returns a node with five pods.
func newModel(seed uint64) *model {
	m := &model{server: newServer(), random: rand.New(rand.NewPCG(seed, seed))}
	for i := range 5 {
		name := fmt.Sprintf("pod%d", i)
		p := podOf(name, probeIn("a", states.Success, ""), probeIn("b", states.Success, ""), with(probeIn("a", states.Success, ""), liveness))
		p.Gated, p.PerProbe = i != 0, i%2 == 0
		m.create(name, p.UID)
		p.Published = m.conditions(p.UID)
		m.pods = append(m.pods, p)
	}
	m.before = func(ctx context.Context, pod api.Pod) error { return m.fault(ctx) }
	m.after = func(ctx context.Context, pod api.Pod) error { return m.fault(ctx) }
	m.changed = m.inform
	return m
}

// start starts a writer, and sets all pods.
func (m *model) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m.writer = conditions.NewWriter(conditions.Config{Patcher: m.server})
	ended := make(chan struct{})
	go func(w *conditions.Writer) { defer close(ended); w.Run(ctx) }(m.writer)
	m.stop = func() { cancel(); <-ended }
	for _, p := range m.pods {
		m.writer.Set(p)
	}
}

// upTo returns a random duration below most.
func (m *model) upTo(most time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.random.Int64N(int64(most)))
}

// fault delays a request, and may return an error for it.
func (m *model) fault(ctx context.Context) error {
	m.mu.Lock()
	wait, fails := time.Duration(0), false
	if m.mayFail {
		wait, fails = time.Duration(m.random.IntN(300))*time.Millisecond, m.random.IntN(3) == 0
	}
	if fails {
		m.faults++
	}
	m.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	if fails {
		return errors.New("connection reset")
	}
	return nil
}

// inform passes the published conditions to the agent after a delay. It may skip states, as a busy agent does, but
// not the last one. The caller holds the lock of the server.
func (m *model) inform(uid types.UID, _ []v1.PodCondition) {
	wait := time.Duration(0)
	if m.lag > 0 {
		wait = time.Duration(m.random.Int64N(int64(m.lag)))
	}
	time.AfterFunc(wait, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := range m.pods {
			if m.pods[i].UID == uid {
				m.pods[i].Published = m.server.pods[uid]
				m.writer.Set(m.pods[i])
			}
		}
	})
}

// change changes a probe of a pod.
func (m *model) change() {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.pods[m.random.IntN(len(m.pods))]
	probes := slices.Clone(p.Probes)
	one := &probes[m.random.IntN(len(probes))]
	one.State = states.State(m.random.IntN(4))
	one.Paused = m.random.IntN(8) == 0
	if one.State != states.Unknown {
		one.Failed, one.Text = one.State == states.Failure, fmt.Sprint("text ", m.random.IntN(3))
	}
	p.Probes = probes
	m.writer.Set(*p)
}

// wants returns the status and the reason that a condition must have. It computes them independently of Decide,
// from the table of states in the documentation.
func wants(p *conditions.Pod, of v1.PodConditionType) (status v1.ConditionStatus, reason string) {
	var failed, failing, unknown, paused, warning bool
	for _, q := range p.Probes {
		name := v1.PodConditionType(conditions.Prefix + q.Kind.String() + "." + q.Container)
		if of == conditions.Ready && q.Kind == probe.Readiness || of == conditions.Live && q.Kind == probe.Liveness || of == name {
			failed = failed || q.Failed
			failing = failing || q.State == states.Failure
			unknown = unknown || q.State == states.Unknown
			paused = paused || q.Paused
			warning = warning || q.State == states.Warning
		}
	}
	status = v1.ConditionTrue
	if failed {
		status = v1.ConditionFalse
	}
	switch {
	case failing:
		return status, "ProbeFailed"
	case unknown:
		return status, "ProbeUnknown"
	case paused:
		return status, "Paused"
	case warning:
		return status, "ProbeWarning"
	}
	return status, "ProbeSucceeded"
}

// check compares the server's conditions with the result of wants.
func (m *model) check(t *testing.T, what string) {
	t.Helper()
	m.mu.Lock()
	pods := slices.Clone(m.pods)
	m.mu.Unlock()
	for i := range pods {
		p := pods[i]
		p.Published = m.conditions(p.UID)
		if left := conditions.Decide(&p); left != nil {
			t.Errorf("%s: %s: not written: %s", what, p.Name, words(left))
		}
		n := 0
		for _, c := range p.Published {
			if c.Type == v1.PodScheduled {
				continue
			}
			n++
			if status, reason := wants(&p, c.Type); c.Status != status || c.Reason != reason {
				t.Errorf("%s: %s: %s is %s %s, want %s %s", what, p.Name, c.Type, c.Status, c.Reason, status, reason)
			}
		}
		want := 1 // the condition Live
		if p.Gated {
			want++
		}
		if p.PerProbe {
			want += 3
		}
		if n != want {
			t.Errorf("%s: %s has %d conditions of ours, want %d", what, p.Name, n, want)
		}
	}
	if got := m.writer.Counts().Pending; got != 0 {
		t.Errorf("%s: %d pods are pending", what, got)
	}
}

func TestModelOnePatchPerTransition(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(seed)
			m.lag = 3 * time.Second
			m.start(t)
			defer func() { m.stop() }()
			synctest.Wait()
			if m.count() != len(m.pods) {
				t.Fatalf("%d patches of %d pods at first", m.count(), len(m.pods))
			}
			for step := range 60 {
				before, transitions, urgent := m.count(), 0, 0
				m.mu.Lock()
				olds := slices.Clone(m.pods)
				for i := range olds {
					olds[i].Published = m.server.pods[olds[i].UID]
				}
				m.mu.Unlock()
				m.change()
				m.mu.Lock()
				for i := range olds {
					olds[i].Probes = m.pods[i].Probes
					changes := conditions.Decide(&olds[i])
					if changes != nil {
						transitions++
					}
					if slices.ContainsFunc(changes, func(c v1.PodCondition) bool { // more than the message changes
						return !slices.ContainsFunc(olds[i].Published, func(p v1.PodCondition) bool {
							return p.Type == c.Type && p.Status == c.Status && p.Reason == c.Reason
						})
					}) {
						urgent++
					}
				}
				m.mu.Unlock()
				synctest.Wait()
				if got := m.count() - before; got < urgent || got > transitions {
					t.Fatalf("seed %d, step %d: %d patches for %d transitions, %d of them at once", seed, step, got, transitions, urgent)
				}
				time.Sleep(m.upTo(2 * time.Second)) // may be shorter than the lag of the informer
			}
			time.Sleep(time.Minute + 4*time.Second)
			m.check(t, fmt.Sprintf("seed %d", seed))
			before := m.count()
			time.Sleep(24 * time.Hour)
			if m.count() != before {
				t.Errorf("seed %d: %d patches in a day at rest", seed, m.count()-before)
			}
		})
	}
}

func TestModelConvergesAfterFaultsAndRestarts(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(seed)
			m.lag, m.mayFail = 5*time.Second, true
			m.start(t)
			defer func() { m.stop() }()
			changes := len(m.pods)
			for range 200 {
				m.change()
				changes++
				time.Sleep(m.upTo(time.Second))
				if m.upTo(40) == 0 {
					m.stop()
					m.mu.Lock()
					m.restarts++
					m.start(t)
					m.mu.Unlock()
				}
			}
			m.mu.Lock()
			m.mayFail = false
			m.mu.Unlock()
			time.Sleep(2 * time.Minute)
			m.check(t, fmt.Sprintf("seed %d", seed))
			// A fault may hide an applied patch, and a restart may happen while the informer lags: both may
			// cause an additional patch.
			if most := changes + m.faults + m.restarts*len(m.pods); m.count() > most {
				t.Errorf("seed %d: %d patches for at most %d", seed, m.count(), most)
			}
			before := m.count()
			time.Sleep(24 * time.Hour)
			if m.count() != before {
				t.Errorf("seed %d: %d patches in a day at rest", seed, m.count()-before)
			}
		})
	}
}
