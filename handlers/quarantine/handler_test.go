package quarantine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

var (
	errTrap  = &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("trap")}
	errStart = &probe.Error{Reason: probe.ReasonInstantiate, Err: errors.New("cannot start")}
)

// sick is a plugin whose probes return the errors that the test sets.
type sick struct {
	mu    sync.Mutex
	with  map[string]error // errors by config
	calls map[string]int
	hold  chan struct{} // if not nil, attempts wait for it
}

func newSick() *sick { return &sick{with: make(map[string]error), calls: make(map[string]int)} }

func (s *sick) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return s.probe(ctx, "", req)
}

func (s *sick) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		return s.probe(ctx, string(config), req)
	}), nil
}

func (s *sick) probe(ctx context.Context, config string, _ probe.Request) (probe.Outcome, error) {
	s.mu.Lock()
	s.calls[config]++
	err, hold := s.with[config], s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	switch {
	case ctx.Err() != nil:
		return probe.Outcome{}, ctx.Err()
	case errors.Is(err, errPanic):
		panic(err)
	case errors.Is(err, errGoexit):
		runtime.Goexit()
	}
	return probe.Outcome{Result: probe.Failure}, err
}

var errPanic, errGoexit = errors.New("panic"), errors.New("goexit")

func (s *sick) becomes(config string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.with[config] = err
}

func (s *sick) called(config string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[config]
}

// ward is a plugin in a quarantine.
type ward struct {
	t *testing.T
	*sick
	q *quarantine.Handler
}

func newWard(t *testing.T) *ward {
	s := newSick()
	return &ward{t, s, quarantine.New(s, quarantine.Config{})}
}

func (w *ward) prepare(config string) probe.Handler {
	w.t.Helper()
	h, err := w.q.Prepare([]byte(config), probe.Target{})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// tick makes the attempts of one tick, as a worker does.
func tick(h probe.Handler) (err error) {
	for n := 1; n <= probe.MaxAttempts; n++ {
		_, err = h.Probe(context.Background(), probe.Request{Attempt: n, Spec: probe.Spec{Period: 10 * time.Second}})
		if err == nil || errors.Is(err, probe.ErrNoSlot) {
			break
		}
	}
	return err
}

// untilOf returns the remaining time of the quarantine in err, or 0 if there is none.
func untilOf(err error) time.Duration {
	if q, ok := errors.AsType[*quarantine.Error](err); ok {
		return time.Until(q.Until)
	}
	return 0
}

// isPause reports whether got is a pause of want plus a jitter of up to a fifth.
func isPause(got, want time.Duration) bool { return want <= got && got < want+want/5 }

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestQuarantine(t *testing.T) {
	bubble(t, "begins after five ticks, and trials end or prolong it", func(t *testing.T) {
		w := newWard(t)
		p := w.prepare("a")
		w.becomes("a", errTrap)
		for range 4 {
			if err := tick(p); untilOf(err) != 0 || !errors.Is(err, errTrap) {
				t.Fatalf("got %v", err)
			}
		}
		err := tick(p)
		if errors.Is(err, probe.ErrNoSlot) || !errors.Is(err, errTrap) || !isPause(untilOf(err), 30*time.Second) || err.Error() != "trap" {
			t.Fatalf("the fifth: got %v, for %s", err, untilOf(err))
		}
		if got := w.called("a"); got != 15 {
			t.Errorf("%d attempts, want all three of each of five ticks", got)
		}
		for _, pause := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
			pause *= time.Second
			before := w.called("a")
			if !isPause(untilOf(err), pause) {
				t.Errorf("got a pause of %s, want %s", untilOf(err), pause)
			}
			time.Sleep(untilOf(err) - time.Second)
			err = tick(p)
			if !errors.Is(err, probe.ErrNoSlot) || !errors.Is(err, errTrap) || untilOf(err) != time.Second {
				t.Errorf("within %s: got %v", pause, err)
			}
			if w.called("a") != before {
				t.Errorf("within %s: an attempt was made", pause)
			}
			time.Sleep(time.Second)
			if err = tick(p); errors.Is(err, probe.ErrNoSlot) || untilOf(err) == 0 {
				t.Errorf("trial after %s: got %v", pause, err)
			}
			if got := w.called("a") - before; got != 3 {
				t.Errorf("trial after %s: %d attempts", pause, got)
			}
		}
		w.becomes("a", nil)
		time.Sleep(untilOf(err))
		if err := tick(p); err != nil {
			t.Errorf("the trial without an error: %v", err)
		}
		w.becomes("a", errTrap)
		if err := tick(p); untilOf(err) != 0 {
			t.Errorf("one error after it: got %v, for %s", err, untilOf(err))
		}
	})
	bubble(t, "error says until when and why", func(t *testing.T) {
		w := newWard(t)
		p := w.prepare("a")
		w.becomes("a", errTrap)
		var last error
		for range 5 {
			last = tick(p)
		}
		want := "in quarantine until " + time.Now().Add(untilOf(last)).UTC().Format(time.RFC3339) + ": trap"
		if err := tick(p); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	bubble(t, "verdict resets the count", func(t *testing.T) {
		w := newWard(t)
		p := w.prepare("a")
		for range 3 {
			w.becomes("a", errTrap)
			for range 4 {
				_ = tick(p)
			}
			w.becomes("a", nil)
			if err := tick(p); err != nil {
				t.Fatal(err)
			}
		}
	})
	bubble(t, "probe with a long period pauses for a period", func(t *testing.T) {
		w := newWard(t)
		p := w.prepare("a")
		w.becomes("a", errTrap)
		var err error
		for range 5 {
			_, err = p.Probe(t.Context(), probe.Request{Spec: probe.Spec{Period: time.Hour}})
		}
		if !isPause(untilOf(err), time.Hour) {
			t.Errorf("got %s", untilOf(err))
		}
	})
	bubble(t, "pauses of probes differ", func(t *testing.T) {
		w := newWard(t)
		w.q = quarantine.New(w.sick, quarantine.Config{Errors: 1})
		w.becomes("a", errTrap)
		pauses := make(map[time.Duration]bool)
		for range 10 {
			pauses[untilOf(tick(w.prepare("a")))] = true
		}
		if len(pauses) < 2 {
			t.Errorf("got %v", pauses)
		}
	})
}

func TestQuarantineCountsProbesSeparately(t *testing.T) {
	bubble(t, "errors of one probe do not pause another", func(t *testing.T) {
		w := newWard(t)
		a, b := w.prepare("a"), w.prepare("b")
		w.becomes("a", errTrap)
		for range 20 {
			_ = tick(a)
			if err := tick(b); err != nil {
				t.Fatal(err)
			}
		}
	})
	bubble(t, "new config resets the count", func(t *testing.T) {
		w := newWard(t)
		w.becomes("a", errTrap)
		p := w.prepare("a")
		for range 6 {
			_ = tick(p)
		}
		if err := tick(w.prepare("a")); errors.Is(err, probe.ErrNoSlot) {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "start errors count for all probes, and one trial is for all", func(t *testing.T) {
		w := newWard(t)
		var probes []probe.Handler
		for i := range 5 {
			config := fmt.Sprint(i)
			w.becomes(config, errStart)
			probes = append(probes, w.prepare(config))
		}
		var last error
		for _, p := range probes { // one error each
			last = tick(p)
		}
		if !isPause(untilOf(last), 30*time.Second) {
			t.Fatalf("got %v, for %s", last, untilOf(last))
		}
		other := w.prepare("other")
		if err := tick(other); !errors.Is(err, probe.ErrNoSlot) || w.called("other") != 0 {
			t.Errorf("another probe: got %v", err)
		}
		time.Sleep(untilOf(last))
		w.hold = make(chan struct{})
		trial := make(chan error)
		go func() { trial <- tick(other) }()
		synctest.Wait()
		if err := tick(probes[0]); !errors.Is(err, probe.ErrNoSlot) {
			t.Errorf("beside the trial: got %v", err)
		}
		close(w.hold)
		if err := <-trial; err != nil {
			t.Errorf("the trial: %v", err)
		}
		before := w.called("1")
		if err := tick(probes[1]); errors.Is(err, probe.ErrNoSlot) || w.called("1") == before {
			t.Errorf("after the trial: got %v", err)
		}
	})
	bubble(t, "attempts in flight when it begins do not prolong it", func(t *testing.T) {
		w := newWard(t)
		w.hold = make(chan struct{})
		w.becomes("a", errStart)
		results := make(chan error)
		for range 20 {
			go func() { results <- tick(w.prepare("a")) }()
		}
		synctest.Wait()
		close(w.hold)
		var longest time.Duration
		for range 20 {
			longest = max(longest, untilOf(<-results))
		}
		if !isPause(longest, 30*time.Second) {
			t.Errorf("got %s", longest)
		}
	})
}

func TestQuarantineIgnoresNeutralErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err error
		end error // cause of the end of the context
	}{
		"no slot":           {err: fmt.Errorf("busy: %w", probe.ErrNoSlot)},
		"host out of ports": {err: &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("no port")}},
		"deadline":          {end: context.DeadlineExceeded},
		"cancelled":         {end: context.Canceled},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWard(t)
			p := w.prepare("a")
			w.becomes("a", c.err)
			ctx, cancel := context.WithCancel(t.Context())
			if c.end == context.DeadlineExceeded {
				ctx, cancel = context.WithTimeout(ctx, -1)
			} else if c.end != nil {
				cancel()
			}
			defer cancel()
			for range 20 {
				if _, err := p.Probe(ctx, probe.Request{}); untilOf(err) != 0 {
					t.Fatalf("got %v", err)
				}
			}
		})
	}
}

// TestQuarantineOfHandlersThatDoNotReturn checks that a panic and runtime.Goexit count like errors.
func TestQuarantineOfHandlersThatDoNotReturn(t *testing.T) {
	for name, err := range map[string]error{"panic": errPanic, "runtime.Goexit": errGoexit} {
		bubble(t, name, func(t *testing.T) {
			w := newWard(t)
			p := w.prepare("a")
			w.becomes("a", err)
			ticks := func() (last error) { // in a new goroutine, because Goexit ends it
				done := make(chan struct{})
				go func() {
					defer close(done)
					last = tick(p)
				}()
				<-done
				return last
			}
			for range 5 {
				_ = ticks()
			}
			until := untilOf(ticks())
			if until <= 0 {
				t.Fatal("no quarantine")
			}
			time.Sleep(until)
			_ = ticks() // the trial
			if until = untilOf(ticks()); until <= 0 {
				t.Fatal("the quarantine has ended with a trial that did not return")
			}
			time.Sleep(until)
			w.becomes("a", nil)
			if err := ticks(); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHandlerUnprepared(t *testing.T) {
	w := newWard(t)
	w.becomes("", errTrap)
	var reg handlers.Registry
	if err := reg.Register("sick", "test", w.q); err != nil {
		t.Fatal(err)
	}
	if got, err := w.q.Probe(t.Context(), probe.Request{}); !errors.Is(err, errTrap) || got.Result != probe.Failure {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := reg.Close(); err != nil {
		t.Errorf("a handler that needs no Close: %v", err)
	}
}

func TestHandlerSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(*testing.T) probetest.HandlerUnderTest {
		around := func(steps ...probetest.Step) probe.Handler {
			return quarantine.New(probetest.NewHandler(steps...), quarantine.Config{})
		}
		return probetest.HandlerUnderTest{
			Good: around(), Hanging: around(probetest.Hang()), Erring: around(probetest.Error(errTrap)),
		}
	})
}
