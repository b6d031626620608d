package group_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func TestShutdown(t *testing.T) {
	bubble(t, "cancels attempts, waits for them and drops their results", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		channel := g.Results(probe.Readiness).Updates()
		p := newProbe()
		var ended time.Duration
		h := newReleaser(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			start := time.Now()
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			ended = time.Since(start)
			return probe.Outcome{Result: probe.Success}, nil
		})
		p.Handler, p.Spec.Timeout = h, -1
		add(t, g, "k", p)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if ended != 3*time.Second {
			t.Errorf("the attempt took %v", ended)
		}
		if _, ok := g.Results(probe.Readiness).Get("checkout/web/1"); ok {
			t.Error("a result is left")
		}
		for u := range channel { // until it is closed
			if u.Result == results.Success {
				t.Errorf("update %+v", u)
			}
		}
		h.wantReleased(t, "Shutdown", 1)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Errorf("second Shutdown: %v", err)
		}
		h.wantReleased(t, "second Shutdown", 1)
	})
	bubble(t, "names the probes whose handlers do not return", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		for i := range 12 {
			p := newProbe()
			p.Name = "deaf"
			p.Task.Subject = results.Subject{Container: fmt.Sprintf("c%02d", i)}
			if i == 0 {
				p.Task.Subject.Namespace, p.Task.Subject.Pod = "", "a-pod"
			}
			p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
			p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				time.Sleep(time.Minute)
				return probe.Outcome{}, nil
			})
			add(t, g, fmt.Sprint(i), p)
		}
		healthy := newProbe()
		healthy.Task.SetState(worker.Running("healthy", time.Now()))
		add(t, g, "healthy", healthy)
		cause := errors.New("the host goes down")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		start := time.Now()
		err := g.Shutdown(ctx)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		var left *group.LeftError
		if !errors.As(err, &left) || len(left.Left) != 12 || !errors.Is(err, cause) {
			t.Fatalf("got %v", err)
		}
		text := err.Error()
		if !strings.HasPrefix(text, `probes are still under way: c01 readiness (handler "deaf"), c02 `) ||
			!strings.HasSuffix(text, " and 2 more: the host goes down") {
			t.Error(text)
		}
		if pod := (&group.LeftError{Left: left.Left[11:], Err: cause}).Error(); pod !=
			`probes are still under way: a-pod/c00 readiness (handler "deaf"): the host goes down` {
			t.Error(pod)
		}
		if err := g.Shutdown(t.Context()); err != nil { // waits for the attempts
			t.Error(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the second Shutdown waited until %v", took)
		}
	})
	release := make(map[string]chan struct{})
	blocking := func(name string) group.Config {
		return group.Config{Observers: []worker.Observer{observerFunc(func(worker.Info) worker.ProbeObserver {
			release[name] = make(chan struct{})
			return closing(func() { <-release[name] })
		})}}
	}
	bubble(t, "names a probe whose observer does not return from Close", blocking("resting"), func(t *testing.T, g *group.Group[string]) {
		add(t, g, "k", newProbe())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var left *group.LeftError
		if err := g.Shutdown(ctx); !errors.As(err, &left) || len(left.Left) != 1 {
			t.Errorf("got %v", err)
		}
		close(release["resting"])
	})
	var closed atomic.Int64
	counting := group.Config{Observers: []worker.Observer{observerFunc(func(worker.Info) worker.ProbeObserver {
		return closing(func() { closed.Add(1) })
	})}}
	bubble(t, "with an ended context names only the probes under way", counting, func(t *testing.T, g *group.Group[string]) {
		deaf := newProbe()
		deaf.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(time.Minute)
			return probe.Outcome{}, nil
		})
		add(t, g, "deaf", deaf)
		for i := range 100 {
			p := newProbe()
			p.Task.Subject.Pod = fmt.Sprint(i)
			p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
			add(t, g, fmt.Sprint(i), p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		var left *group.LeftError
		if err := g.Shutdown(ctx); !errors.As(err, &left) || len(left.Left) != 1 || left.Left[0].Pod != "checkout" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 0 || closed.Load() != 100 {
			t.Errorf("closed %d observers in %v", closed.Load(), took)
		}
	})
	bubble(t, "names a probe whose observer blocks after its last tick", blocking("ticking"), func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler, p.Spec.Timeout = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			<-ctx.Done()
			return probe.Outcome{}, nil
		}), -1
		add(t, g, "k", p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var left *group.LeftError
		if err := g.Shutdown(ctx); !errors.As(err, &left) || len(left.Left) != 1 {
			t.Errorf("got %v", err)
		}
		close(release["ticking"])
	})
	bubble(t, "waits for a probe that was removed before", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(time.Minute)
			return probe.Outcome{}, nil
		})
		add(t, g, "k", p)
		g.Remove("k")
		start := time.Now()
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// observerFunc is a function that implements [worker.Observer].
type observerFunc func(worker.Info) worker.ProbeObserver

func (f observerFunc) Observe(i worker.Info) worker.ProbeObserver { return f(i) }

// closing is a function that is called when a probe ends.
type closing func()

func (closing) Tick(*worker.Tick)              {}
func (closing) Skipped(worker.SkipReason, int) {}
func (c closing) Close()                       { c() }

// TestCallbacksCallGroup removes, adds, changes and lists probes from all callbacks of a group.
func TestCallbacksCallGroup(t *testing.T) {
	var g *group.Group[string]
	var mu sync.Mutex
	calls := make(map[string]int)
	key := group.ID[string]{Key: "k", Task: "web", Kind: probe.Readiness}
	changed := newReleaser(succeed)
	act := func(what string) {
		mu.Lock()
		calls[what]++
		n := calls[what]
		mu.Unlock()
		for range g.All() {
		}
		_, _ = g.Status(key)
		switch {
		case what == "event" && n == 1:
			p := newProbe()
			now, _ := g.Current(key)
			p.Task, p.Handler = now.Task, changed
			if err := g.Update("k", p); err != nil {
				t.Error(err)
			}
			_ = g.Trigger(key)
		case what == "tick" && n == 2:
			g.RemoveFunc("k", func(group.ID[string]) bool { return len(g.Keys()) == 1 })
			p := newProbe()
			p.Handler, p.Spec.Period = changed, time.Hour
			if err := g.Add("k", p); err != nil {
				t.Error(err)
			}
		}
	}
	observer := observerFunc(func(worker.Info) worker.ProbeObserver {
		act("observe")
		return acting{act}
	})
	bubble(t, "during ticks", group.Config{
		Observers: []worker.Observer{observer}, Event: func(group.Event) { act("event") },
	}, func(t *testing.T, bubbled *group.Group[string]) {
		g = bubbled
		first := newReleaser(func(context.Context, probe.Request) (probe.Outcome, error) {
			act("attempt")
			return probe.Outcome{Result: probe.Failure}, nil
		})
		p := newProbe()
		p.Handler, p.Spec.Period = first, time.Second
		add(t, g, "k", p)
		wait(5 * time.Second)
		first.wantReleased(t, "the first handler", 1)
		g.Remove("k")
		changed.wantReleased(t, "the second handler, of two probes", 2)
		if calls["observe"] != 2 || calls["close"] != 2 || calls["event"] != 1 || calls["attempt"] != 1 || calls["tick"] < 3 {
			t.Errorf("calls %v", calls)
		}
	})
}

// acting calls act in all its methods.
type acting struct{ act func(what string) }

func (a acting) Tick(*worker.Tick)              { a.act("tick") }
func (a acting) Skipped(worker.SkipReason, int) { a.act("skipped") }
func (a acting) Close()                         { a.act("close") }

// TestConcurrent calls every method concurrently in real time. It is for the race detector. All handlers
// must be released, all observers closed, and all workers must end.
func TestConcurrent(t *testing.T) {
	gates, observed := new(gateLog), atomic.Int64{}
	observer := observerFunc(func(i worker.Info) worker.ProbeObserver {
		observed.Add(1)
		return gates.Observe(i)
	})
	g, err := group.New[string](group.Config{History: 1 << 16, Observers: []worker.Observer{observer}, Event: func(group.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for range g.Subscribe(ctx) {
		}
	})
	readers.Go(func() {
		for ctx.Err() == nil {
			for id, s := range g.All() {
				_, _ = g.Status(id)
				_ = s.Gate
			}
			_ = g.Infos(func(*worker.Info) bool { return true })
			_ = g.Keys()
		}
	})
	var mu sync.Mutex
	var owned []*releaser // handlers owned by the group
	for i := range 4 {
		writers.Go(func() {
			for n := range 150 {
				key := fmt.Sprint((i + n) % 3)
				h := newReleaser(func(context.Context, probe.Request) (probe.Outcome, error) {
					return probe.Outcome{Result: probe.Result(1 + n%3)}, nil
				})
				p := newProbe()
				p.Handler, p.Kind, p.Spec.Period = h, probe.Kinds[n%2], time.Millisecond
				p.Task.SetState(worker.Running(fmt.Sprint(key, p.Kind), time.Now()))
				id := group.ID[string]{Key: key, Task: "web", Kind: p.Kind}
				taken := g.Add(key, p) == nil
				if was, ok := g.Current(id); !taken && ok {
					p.Task = was.Task
					taken = g.Update(key, p) == nil
				}
				if taken {
					mu.Lock()
					owned = append(owned, h)
					mu.Unlock()
				}
				switch n % 6 {
				case 0:
					_ = g.Trigger(id)
				case 1:
					_ = g.Pause(id)
				case 2:
					_ = g.Resume(id)
				case 3:
					p.Task.SetState(worker.State{Found: true, PodEnded: true})
				case 4:
					g.Remove(key)
				}
			}
		})
	}
	writers.Wait()
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	readers.Wait()
	for _, h := range owned {
		h.wantReleased(t, "a handler", 1)
	}
	if int64(gates.closed) != observed.Load() {
		t.Errorf("%d observers made, %d closed", observed.Load(), gates.closed)
	}
}

// TestShutdownDuringFirstAdd is for the race detector: the first probe creates the shared schedule.
func TestShutdownDuringFirstAdd(t *testing.T) {
	for range 20 {
		g := newGroup(t)
		var both sync.WaitGroup
		both.Go(func() { _ = g.Add("k", newProbe()) })
		both.Go(func() {
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
}

// TestHangingAttemptsDelayNoOtherWorker checks that hanging probes do not delay the ticks of another probe.
func TestHangingAttemptsDelayNoOtherWorker(t *testing.T) {
	bubble(t, "a thousand", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		for i := range 1000 {
			p := newProbe()
			p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
			p.Spec = probe.Spec{Period: time.Second, Timeout: -1}
			p.Handler = probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				<-ctx.Done()
				return probe.Outcome{}, ctx.Err()
			})
			if err := g.Add(fmt.Sprint(i), p); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		var times list[time.Time]
		p := newProbe()
		p.Spec.Period = 100 * ms
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			times.add(time.Now())
			return probe.Outcome{Result: probe.Success}, nil
		})
		add(t, g, "healthy", p)
		wait(10 * time.Second)
		at := times.get()
		if len(at) < 100 {
			t.Fatalf("%d ticks", len(at))
		}
		for i := 2; i < len(at); i++ {
			if between := at[i].Sub(at[i-1]); between != 100*ms {
				t.Errorf("tick %d is %v after the one before", i, between)
			}
		}
	})
}

// blocker is an observer whose Close blocks for one pod.
type blocker struct {
	worker.ProbeObserver
	pod     string
	release chan struct{}
	closed  *atomic.Int32
}

func (b blocker) Observe(i worker.Info) worker.ProbeObserver {
	return blocker{new(witness), i.Pod, b.release, b.closed}
}

func (b blocker) Close() {
	if b.pod == "bad" {
		<-b.release
	}
	b.closed.Add(1)
}

// An observer whose Close blocks does not delay the end of other probes.
func TestShutdownPastBlockingObserver(t *testing.T) {
	b := blocker{closed: new(atomic.Int32)}
	bubble(t, "", group.Config{Observers: []worker.Observer{&b}}, func(t *testing.T, g *group.Group[string]) {
		b.release = make(chan struct{})
		const others = 20
		for i := range others + 1 {
			p := newProbe()
			p.Task.Subject.Pod = fmt.Sprint("good", i)
			if i == others/2 {
				p.Task.Subject.Pod = "bad"
			}
			p.Task.SetState(worker.Running(p.Task.Subject.Pod, time.Now()))
			add(t, g, p.Task.Subject.Pod, p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		left, ok := errors.AsType[*group.LeftError](g.Shutdown(ctx))
		if !ok || len(left.Left) != 1 || left.Left[0].Pod != "bad" || b.closed.Load() != others {
			t.Errorf("left %v, %d observers are closed", left, b.closed.Load())
		}
		close(b.release)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
