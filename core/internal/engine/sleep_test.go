package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// happening is an event of a worker or of its task.
type happening struct {
	at   time.Duration
	name string // "state", "reshape" or the name of an operation
	now  worker.State
	next time.Duration // period of update
}

// randomHappenings returns the events of half a minute. Most states close a gate.
func randomHappenings(random *rand.Rand) (all []happening) {
	names := []string{"state", "state", "state", "state", "state", "trigger", "update", "pause", "resume", "reshape"}
	at := time.Duration(0)
	for i := range 40 {
		at += time.Duration(random.IntN(1500)) * ms
		is := func(percent int) bool { return random.IntN(100) < percent }
		h := happening{at: at + time.Duration(i+1)*time.Microsecond, name: names[random.IntN(len(names))]}
		h.next = time.Duration(1+random.IntN(3)) * 700 * ms
		h.now = worker.State{Found: is(90), Running: is(70), Started: is(50), Deleting: is(5), Final: is(3), PodEnded: is(1)}
		if is(90) {
			h.now.ContainerID = fmt.Sprint("c", random.IntN(3))
		}
		all = append(all, h)
	}
	return all
}

// TestSleepDoesNotChangeTicks compares two kinds of workers: those that sleep while their gate stays closed,
// because their task publishes its state, and those that read the state at every tick and never sleep. All
// attempts, gates, lost ticks and results must be equal, at the same times.
func TestSleepDoesNotChangeTicks(t *testing.T) {
	attempts, gates := 0, 0
	for seed := range *modelSeeds {
		for _, kind := range probe.Kinds {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(kind)))
			happen := randomHappenings(random)
			fails := random.IntN(4) // 1 of fails attempts fails
			delay := time.Duration(random.IntN(3)) * 500 * ms
			var journals [2][]string
			for i, pulls := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					l := &sleeper{rig: newRig(t, kind), fails: fails}
					l.cfg.Spec.InitialDelay = delay
					l.live(happen, pulls)
					journals[i] = l.journal
					attempts, gates = attempts+l.attempts, gates+len(l.gates)
				})
			}
			if !slices.Equal(journals[0], journals[1]) {
				at := 0
				for journals[0][at] == journals[1][at] {
					at++
				}
				t.Fatalf("seed %d, %v: the journals differ at entry %d\npublished %q\nasked     %q", seed, kind, at,
					journals[0][max(0, at-5):min(at+5, len(journals[0]))], journals[1][max(0, at-5):min(at+5, len(journals[1]))])
			}
		}
	}
	if attempts < 15**modelSeeds || gates < 15**modelSeeds {
		t.Errorf("only %d attempts and %d gates", attempts, gates)
	}
}

// TestChangeDuringGatedTick changes a worker between the time when its tick finds a closed gate and the
// time when it would fall asleep.
func TestChangeDuringGatedTick(t *testing.T) {
	bubble(t, "update that ends a pause is not slept through", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Task.Source = nil
		r.cfg.Task.SetState(r.State())
		r.cfg.Paused = true
		r.cfg.Observer = gateCall{r, func() { r.w.Update(engine.Change{Setup: r.cfg.Setup, KeepRun: true}) }}
		r.run()
		r.wantCalls(0)
		r.tick()
		r.wantCalls(1)
	})
}

// gateCall is a rig that makes a call when a gate is reported.
type gateCall struct {
	*rig
	call func()
}

func (g gateCall) Gated(gate worker.Gate) {
	g.rig.Gated(gate)
	if gate != worker.Open {
		g.call()
	}
}

// sleeper is a rig that keeps a log.
type sleeper struct {
	*rig
	journal  []string
	attempts int
	fails    int
}

func (l *sleeper) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.journal = append(l.journal, fmt.Sprintf("%v "+format, append([]any{time.Since(l.start)}, args...)...))
}

func (l *sleeper) Gated(gate worker.Gate) {
	l.note("gate %v", gate)
	l.rig.Gated(gate)
}

func (l *sleeper) Skipped(reason worker.SkipReason, ticks int) {
	l.note("%d skipped: %s", ticks, reason)
}

func (l *sleeper) Tick(t *worker.Tick) {
	l.note("due %v, run %d, %v, hold %v, next %v", t.Due.Sub(l.start), t.Run, t.After, t.OnHold, t.Next.Sub(l.start))
}

// Probe is the handler.
func (l *sleeper) Probe(_ context.Context, r probe.Request) (probe.Outcome, error) {
	l.attempts++
	l.note("attempt of %s", r.ContainerID)
	if l.fails > 0 && l.attempts%l.fails == 0 {
		return probe.Outcome{Result: probe.Failure}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

func (l *sleeper) live(happen []happening, pulls bool) {
	l.cfg.Handler, l.cfg.Observer = l, l
	task := func() *worker.Task {
		t := &worker.Task{Subject: l.cfg.Task.Subject}
		if pulls {
			t.Source = l.rig
		} else {
			t.SetState(l.State())
		}
		return t
	}
	l.cfg.Task = task()
	w := engine.New(&l.shared, l.cfg)
	w.Start()
	for _, h := range happen {
		time.Sleep(h.at - time.Since(l.start))
		s := w.Status()
		l.note("status: %v, run %d, hold %v, next %v", s.Decided, s.Run, s.OnHold, s.Next.Sub(l.start))
		switch h.name {
		case "state":
			h.now.StartedAt = time.Now()
			l.become(func(s *worker.State) { *s = h.now })
			if !pulls {
				w.Task().SetState(h.now)
			}
		case "reshape":
			w.Reshape(task())
		default:
			l.operate(w, operation{name: h.name, period: h.next})
		}
	}
	time.Sleep(10 * time.Second)
	w.Stop()
	l.shared.Wait()
}
