package engine_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

var modelSeeds = flag.Int("model.seeds", 200, "random lives of workers that TestScheduleModel compares with its model")

// operation is a call of a worker's method at one moment.
type operation struct {
	at     time.Duration
	name   string        // trigger, update, pause, resume or stop
	period time.Duration // of update
}

// answer is the behavior of the handler in one attempt: it returns after takes, or earlier when its context
// ends, unless it is deaf.
type answer struct {
	takes time.Duration
	deaf  bool
}

// life is the sequence of events of one worker.
type life struct {
	period, delay, phase time.Duration
	operations           []operation // sorted; no two events of a life are at the same moment
	answers              []answer    // of the attempts; later attempts take no time
}

func (l *life) answer(attempt int) answer {
	if attempt < len(l.answers) {
		return l.answers[attempt]
	}
	return answer{}
}

// lived is the observable outcome of a life.
type lived struct {
	attempts []time.Duration // when they began
	lost     int             // due ticks that were not run
}

func (l lived) String() string {
	var b strings.Builder
	for _, at := range l.attempts {
		fmt.Fprintf(&b, " %v", at)
	}
	return fmt.Sprintf("%d attempts at%s; %d lost", len(l.attempts), b.String(), l.lost)
}

const forever = 1 << 60 * time.Nanosecond

// model simulates the life of one worker in one loop over its events.
type model struct {
	*life
	lived

	last      time.Duration // due time before due
	due       time.Duration
	end       time.Duration // of the tick under way; forever if none is
	deaf      bool
	triggered bool
	paused    bool
}

// expect returns the expected outcome of l.
func expect(l *life) lived {
	m := &model{life: l, due: l.delay, last: l.delay - l.period, end: forever}
	for _, op := range l.operations {
		m.until(op.at)
		if op.name == "stop" {
			return m.lived
		}
		m.apply(op)
	}
	panic("a life without an end")
}

// until simulates the events before the time to.
func (m *model) until(to time.Duration) {
	for {
		switch {
		case m.end < to:
			m.finish(m.end)
		case m.end == forever && m.due < to:
			m.tick(m.due, true)
		default:
			return
		}
	}
}

// finish ends the tick under way, and begins the next one if it is due.
func (m *model) finish(now time.Duration) {
	m.end = forever
	switch {
	case m.triggered:
		m.triggered = false
		m.last, m.due, m.phase = now, now+m.period, 0
		m.tick(now, false)
	case m.due <= now:
		m.tick(now, true)
	}
}

func (m *model) tick(now time.Duration, periodic bool) {
	if periodic {
		step := m.period
		if m.phase > 0 {
			step, m.phase = m.phase, 0
		}
		m.last, m.due = m.due, m.due+step
		for m.due <= now {
			m.lost++
			m.last, m.due = m.due, m.due+m.period
		}
	}
	if m.paused {
		return
	}
	a := m.answer(len(m.attempts))
	m.attempts = append(m.attempts, now)
	m.end, m.deaf = now+a.takes, a.deaf
}

func (m *model) apply(op operation) {
	cancels := false
	switch op.name {
	case "trigger":
		m.triggered = true
	case "pause":
		cancels, m.paused = !m.paused, true
	case "resume":
		m.triggered, m.paused = m.triggered || m.paused, false
	case "update":
		cancels = true
		m.triggered = m.triggered || m.end != forever && !m.paused // the attempt is repeated
		if op.period != m.period {
			m.period, m.phase = op.period, 0
			m.due = max(m.last+m.period, op.at)
			m.last = m.due - m.period
		}
	}
	if m.end == forever || cancels && !m.deaf {
		m.finish(op.at)
	}
}

// randomLife returns a life of about half a minute.
func randomLife(r *rand.Rand) *life {
	periods := []time.Duration{20 * ms, 30 * ms, 50 * ms, 70 * ms, 100 * ms, 250 * ms, time.Second, 3 * time.Second, 10 * time.Second}
	period := func() time.Duration { return periods[r.IntN(len(periods))] }
	l := &life{period: period()}
	switch r.IntN(3) {
	case 0:
		l.delay = time.Duration(r.Int64N(int64(l.period/ms))) * ms
	case 1:
		l.phase = (1 + time.Duration(r.Int64N(int64(l.period/ms)))) * ms
	}
	for range r.IntN(200) {
		a := answer{deaf: r.IntN(4) == 0}
		switch r.IntN(12) {
		case 0:
			a.takes = time.Duration(r.IntN(3000)) * ms
		case 1, 2, 3:
			a.takes = time.Duration(r.IntN(100)) * ms
		case 4:
			if !a.deaf {
				a.takes = forever / 2 // hangs
			}
		}
		l.answers = append(l.answers, a)
	}
	at, n := time.Duration(0), 1+r.IntN(60)
	for i := range n {
		at += time.Duration(r.Int64N(int64(30*time.Second/ms)/int64(n))) * ms
		// Ticks are at full milliseconds, or full milliseconds after an operation.
		op := operation{at: at + time.Duration(i+1)*time.Microsecond, name: "stop"}
		if i < n-1 {
			op.name = []string{"trigger", "trigger", "update", "update", "pause", "resume", "resume"}[r.IntN(7)]
			op.period = period()
		}
		l.operations = append(l.operations, op)
	}
	return l
}

// TestScheduleModel compares random lives of workers, six at a time, with a model that has neither a heap
// nor runners. All times are exact, without windows; TestWindow covers windows. A leaked goroutine fails
// the bubble.
func TestScheduleModel(t *testing.T) {
	attempts, lost := 0, 0
	for seed := range *modelSeeds {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		lives := make([]*life, 6)
		for i := range lives {
			lives[i] = randomLife(random)
		}
		var got []lived
		synctest.Test(t, func(t *testing.T) { got = liveAll(t, lives) })
		for i, l := range lives {
			want := expect(l)
			attempts, lost = attempts+len(want.attempts), lost+want.lost
			if !slices.Equal(got[i].attempts, want.attempts) || got[i].lost != want.lost {
				t.Fatalf("seed %d, worker %d\nperiod %v, delay %v, phase %v\noperations %v\nanswers %v\ngot  %v\nwant %v",
					seed, i, l.period, l.delay, l.phase, l.operations, l.answers, got[i], want)
			}
		}
	}
	if attempts < 100**modelSeeds || lost < *modelSeeds {
		t.Errorf("only %d attempts and %d lost ticks in %d lives", attempts, lost, 6**modelSeeds)
	}
}

// liveAll runs one worker for each life, and returns the outcomes.
func liveAll(t *testing.T, lives []*life) []lived {
	all := make([]lived, len(lives))
	shared := &newRig(t, probe.Readiness).shared
	shared.Compat = probe.CompatExactTimer
	start := time.Now()
	for i, l := range lives {
		go func() {
			r := newRig(t, probe.Readiness)
			r.restart(fmt.Sprint("c", i))
			r.cfg.Spec.Period, r.cfg.Spec.Timeout, r.cfg.Delay, r.cfg.Phase = l.period, 0, l.delay, l.phase
			r.cfg.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				a := l.answer(len(all[i].attempts))
				all[i].attempts = append(all[i].attempts, time.Since(start))
				return a.give(ctx)
			})
			w := engine.New(shared, r.cfg)
			w.Start()
			for _, op := range l.operations {
				time.Sleep(op.at - time.Since(start))
				r.operate(w, op)
			}
			w.Wait()
			all[i].lost = r.skips(worker.SkipBusy)
		}()
	}
	synctest.Wait()
	time.Sleep(time.Minute) // longer than a life
	shared.Wait()
	return all
}

func (a answer) give(ctx context.Context) (probe.Outcome, error) {
	var done <-chan struct{}
	if !a.deaf {
		done = ctx.Done()
	}
	if a.takes > 0 {
		timer := time.NewTimer(a.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return probe.Outcome{}, ctx.Err()
		}
	}
	return probe.Outcome{Result: probe.Success}, nil
}

func (r *rig) operate(w *engine.Worker, op operation) {
	switch op.name {
	case "trigger":
		w.Trigger()
	case "update":
		r.cfg.Spec.Period = op.period
		w.Update(engine.Change{Setup: r.cfg.Setup, KeepRun: true, KeepPaused: true})
	case "pause":
		w.Pause()
	case "resume":
		w.Resume()
	case "stop":
		w.Stop()
	}
}
