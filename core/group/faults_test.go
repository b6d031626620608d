package group_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// mob implements callbacks with random faults, for all keys except "good".
type mob struct {
	mu       sync.Mutex
	random   *rand.Rand
	release  chan struct{} // closed: no callback hangs any more
	peaceful bool
}

// act fails at random. hang reports whether it may hang.
func (m *mob) act(hang bool) {
	m.mu.Lock()
	n, release, peaceful := m.random.IntN(12), m.release, m.peaceful
	m.mu.Unlock()
	switch {
	case peaceful:
	case n == 0:
		panic("one of the mob")
	case n == 1:
		runtime.Goexit()
	case n == 2 && hang:
		<-release
	}
}

func (m *mob) below(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

func (m *mob) Observe(i worker.Info) worker.ProbeObserver {
	if i.Pod == "good" {
		return nil
	}
	return mobProbe{m}
}

func (m *mob) event(e group.Event) {
	if e.Info.Pod != "good" {
		m.act(false)
	}
}

// mobProbe is the handler and the observer of one probe.
type mobProbe struct{ *mob }

func (m mobProbe) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	m.act(true)
	return probe.Outcome{Result: probe.Result(m.below(4))}, nil
}
func (m mobProbe) Release()                       { m.act(false) }
func (m mobProbe) Tick(*worker.Tick)              { m.act(false) }
func (m mobProbe) Skipped(worker.SkipReason, int) { m.act(false) }
func (m mobProbe) Gated(worker.Gate)              { m.act(false) }
func (m mobProbe) Decided(results.Result)         { m.act(false) }
func (m mobProbe) Close()                         { m.act(false) }

// The group gets random calls, and callbacks have random faults. The healthy probe must tick each second,
// every call must return, and after the last callback has returned Shutdown must find no attempt under way.
func TestRandomCallbackFaults(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRandomCallbackFaults(t, seed) })
		})
	}
}

func testRandomCallbackFaults(t *testing.T, seed uint64) {
	m := &mob{random: rand.New(rand.NewPCG(seed, 1)), release: make(chan struct{})}
	good := new(witness)
	g, err := group.New[string](group.Config{
		History: 1 << 16, Event: m.event, Observers: []worker.Observer{m, good}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 2))
	tasks := make(map[string]*worker.Task)
	probeOf := func(key string) group.Probe {
		if tasks[key] == nil {
			tasks[key] = &worker.Task{Subject: results.Subject{Pod: key, Container: "web"}}
			tasks[key].SetState(worker.Running(key, time.Now()))
		}
		return group.Probe{
			Task: tasks[key], Kind: probe.Kind(random.IntN(len(probe.Kinds))), Handler: mobProbe{m}, Name: "mob",
			Spec: probe.Spec{Period: time.Duration(1+random.IntN(20)) * 100 * ms, Timeout: 300 * ms, ErrorPolicy: probe.ErrorPolicy(random.IntN(2)), FailureThreshold: 1},
		}
	}
	healthy := probeOf("good")
	healthy.Kind, healthy.Handler = probe.Readiness, succeed
	healthy.Spec = probe.Spec{Period: time.Second}
	if err := g.Add("good", healthy); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	begun, before := time.Now(), len(good.ticks.get())
	for range 150 {
		key := fmt.Sprint("k", random.IntN(5))
		p := probeOf(key)
		id := group.ID[string]{Key: key, Task: "web", Kind: p.Kind}
		state := worker.Running(fmt.Sprint(key, "/", random.IntN(3)), time.Now().Add(time.Duration(random.IntN(100)-50)*time.Second))
		if random.IntN(4) == 0 {
			state.Running = false
		}
		do := []func(){
			func() { _ = g.Add(key, p) }, func() { _ = g.Add(key, p) }, func() { _ = g.Update(key, p) }, func() { g.Remove(key) },
			func() { _ = g.Pause(id) }, func() { _ = g.Resume(id) }, func() { _ = g.Trigger(id) }, func() { p.Task.SetState(state) },
			func() { g.Explain(id) }, func() { g.RemoveFunc(key, func(o group.ID[string]) bool { return o == id }) },
		}[random.IntN(10)]
		if what := call(do)(); what != "returned" && what != "ended" {
			t.Fatalf("a call %s", what)
		}
		time.Sleep(time.Duration(random.IntN(3000)) * ms)
	}
	synctest.Wait()
	want, got := int(time.Since(begun)/time.Second), len(good.ticks.get())-before
	if got < want || got > want+1 {
		t.Errorf("the good probe had %d ticks in %d s", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := g.Shutdown(ctx); err != nil {
		left, ok := errors.AsType[*group.LeftError](err)
		if !ok || len(left.Left) == 0 {
			t.Errorf("Shutdown: %v", err)
		}
	}
	m.mu.Lock()
	m.peaceful = true
	m.mu.Unlock()
	close(m.release)
	time.Sleep(time.Minute)
	if err := g.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown after the end of all callbacks: %v", err)
	}
	for key, task := range tasks { // the group keeps no reference to them
		other, err := group.New[string](group.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Add(key, group.Probe{Task: task, Handler: succeed}); err != nil {
			t.Errorf("%s in another group: %v", key, err)
		}
		if err := other.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
