package handlers_test

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

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

// faulty is a version that misbehaves outside of attempts.
type faulty struct {
	version
	release, end, inherit func() // nil: as it should be
}

func (f *faulty) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	b, err := f.version.Prepare(config, target)
	return &faultyProbe{boundVersion: b.(*boundVersion), of: f}, err
}

func (f *faulty) Close() error {
	if f.end != nil {
		f.end()
	}
	return f.version.Close()
}

type faultyProbe struct {
	*boundVersion
	of *faulty
}

func (p *faultyProbe) Release() {
	if p.of.release != nil {
		p.of.release()
	}
	p.boundVersion.Release()
}

func (p *faultyProbe) Inherit(from probe.Handler) {
	if p.of.inherit != nil {
		p.of.inherit()
	}
	if old, ok := from.(*faultyProbe); ok {
		p.kept = old.kept
	}
}

func disco() { panic("at the disco") }

// What a version does wrong when it ends is told, and ends nothing else.
func TestAGenerationThatPanicsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1 := &faulty{version: version{number: 1}, release: disco, end: disco}
		var told []string
		s := swapOf(t, v1, handlers.SwapConfig{Closed: func(_ probe.Handler, err error) {
			told = append(told, fmt.Sprint(err))
			disco()
		}})
		a, b := prepareProbe(t, s, `{"a":1}`), prepareProbe(t, s, `{"b":1}`)
		probe.Release(b)
		if err := s.Replace(t.Context(), &version{number: 2, refuses: "a"}); err == nil {
			t.Error("a version that refuses a config is taken")
		}
		v2 := &faulty{version: version{number: 2}}
		if err := s.Replace(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		says(t, a, `v2 {"a":1} 1`)
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if want := "Release: panic: at the disco\npanic: at the disco"; len(told) != 2 || told[0] != want || told[1] != "<nil>" {
			t.Errorf("told %q", told)
		}
	})
}

// A version that panics when it takes over from the one before is refused, and the one
// before goes on.
func TestAGenerationThatCannotInherit(t *testing.T) {
	v1 := &version{number: 1}
	s := swapOf(t, v1, handlers.SwapConfig{})
	defer s.Close()
	for _, config := range []string{"a", "b", "c"} {
		defer probe.Release(prepareProbe(t, s, config))
	}
	h := prepareProbe(t, s, "{}")
	v2 := &faulty{version: version{number: 2}, inherit: disco}
	if err := s.Replace(t.Context(), v2); err == nil || err.Error() != "Inherit: panic: at the disco" {
		t.Errorf("got %v", err)
	}
	if v2.ended.Load() != v2.prepared.Load() || s.Generation() != 1 {
		t.Errorf("%d of %d released, generation %d", v2.ended.Load(), v2.prepared.Load(), s.Generation())
	}
	says(t, h, "v1 {} 1")
	if err := s.Replace(t.Context(), &faulty{version: version{number: 3}}); err != nil {
		t.Error(err)
	}
	if out, err := h.Probe(t.Context(), probe.Request{}); err != nil || !strings.HasPrefix(out.Output, "v3 ") {
		t.Errorf("got %q, %v", out.Output, err)
	}
}

// A version that does not end is told of, and neither keeps later ones out nor the Swap
// from being closed.
func TestAGenerationThatDoesNotEnd(t *testing.T) {
	for name, edit := range map[string]func(f *faulty, hang func()){
		"Release": func(f *faulty, hang func()) { f.release = hang },
		"Close":   func(f *faulty, hang func()) { f.end = hang },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forever := make(chan struct{})
				var calls atomic.Int32
				v1 := &faulty{version: version{number: 1}}
				edit(v1, func() {
					calls.Add(1)
					<-forever
				})
				var mu sync.Mutex
				told := make(map[probe.Handler]error)
				s := swapOf(t, v1, handlers.SwapConfig{Closed: func(h probe.Handler, err error) {
					mu.Lock()
					defer mu.Unlock()
					told[h] = err
				}})
				a := prepareProbe(t, s, `{"a":1}`)
				for range 100 {
					prepareProbe(t, s, `{"b":1}`)
				}
				for n := 2; n < 5; n++ {
					if err := s.Replace(t.Context(), &faulty{version: version{number: n}}); err != nil {
						t.Fatal(err)
					}
					says(t, a, fmt.Sprintf(`v%d {"a":1} %d`, n, n-1))
				}
				start := time.Now()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("closing took %v", took)
				}
				if err := told[v1]; err == nil || !strings.HasPrefix(err.Error(), name+" has not returned within ") || len(told) != 4 {
					t.Errorf("told %v", told)
				}
				if name == "Release" && !v1.closed.Load() {
					t.Error("it was not closed either")
				}
				if calls.Load() != 1 {
					t.Errorf("%d calls hang, want one", calls.Load())
				}
				close(forever)
			})
		})
	}
}

// hung does not come back from being prepared, or tried, until it is let to.
type hung struct {
	answering
	where       string
	goOn, letGo chan struct{}
}

func (h *hung) wait(where string) {
	if h.where == where {
		<-h.goOn
	}
}

func (h *hung) Prepare([]byte, probe.Target) (probe.Handler, error) {
	h.wait("prepare")
	return h, nil
}

func (h *hung) Try(context.Context) error {
	h.wait("try")
	return nil
}

func (h *hung) Release() { close(h.letGo) }

// A version that does not come back keeps neither a later one out nor the Swap from being
// closed, once nobody waits for it any more; and it is let go of.
func TestAGenerationThatDoesNotComeBack(t *testing.T) {
	for how, act := range map[string]func(*handlers.Swap, context.Context, probe.Handler) error{
		"replace": (*handlers.Swap).Replace, "shadow": (*handlers.Swap).Shadow,
	} {
		for _, where := range []string{"prepare", "try"} {
			t.Run(how+"/"+where+"/without a probe", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { comesBackWithoutProbe(t, act, where) })
			})
			t.Run(how+"/"+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := swapOf(t, &version{number: 1}, handlers.SwapConfig{})
					h := prepareProbe(t, s, "{}")
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					next := &hung{always(probe.Success, nil), where, make(chan struct{}), make(chan struct{})}
					if err := act(s, ctx, next); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					says(t, h, "v1 {} 1")
					if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
						t.Error(err)
					}
					says(t, h, "v2 {} 2")
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					close(next.goOn)
					<-next.letGo
				})
			})
		}
	}
}

// comesBackWithoutProbe lets act try a version that hangs while no probe uses the Swap.
func comesBackWithoutProbe(t *testing.T, act func(*handlers.Swap, context.Context, probe.Handler) error, where string) {
	s := swapOf(t, &version{number: 1}, handlers.SwapConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := &hung{always(probe.Success, nil), where, make(chan struct{}), make(chan struct{})}
	if err := act(s, ctx, next); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(next.goOn)
	<-next.letGo
}

// spoilt comes back when nobody waits for it any more, and does not let go of what it has
// made then.
type spoilt struct{ *hung }

func (s spoilt) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	_, err := s.hung.Prepare(config, target)
	return s, err
}

func (s spoilt) Release() {
	defer close(s.letGo)
	disco()
}

// A version that comes back late, and panics when it is let go of, ends nothing else.
func TestAGenerationThatPanicsWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := swapOf(t, &version{number: 1}, handlers.SwapConfig{})
		h := prepareProbe(t, s, "{}")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next := spoilt{&hung{always(probe.Success, nil), "prepare", make(chan struct{}), make(chan struct{})}}
		if err := s.Replace(ctx, next); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(next.goOn)
		<-next.letGo
		synctest.Wait()
		says(t, h, "v1 {} 1")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A probe that ends does not wait for ever for a version that does not let go of it.
func TestAProbeThatIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		v1 := &faulty{version: version{number: 1}, release: func() { <-forever }}
		var told error
		s := swapOf(t, v1, handlers.SwapConfig{Closed: func(_ probe.Handler, err error) { told = err }})
		probes := make([]probe.Handler, 100)
		for i := range probes {
			probes[i] = prepareProbe(t, s, "{}")
		}
		start := time.Now()
		for _, h := range probes {
			probe.Release(h)
		}
		if took := time.Since(start); took > 10*time.Second || s.Live() != 0 {
			t.Errorf("took %v, %d live", took, s.Live())
		}
		if err := s.Close(); err != nil || told == nil || !v1.closed.Load() {
			t.Errorf("%v; told %v", err, told)
		}
		close(forever)
	})
}

// The lock of a Swap is not held while a version inherits.
func TestInheritMayUseTheSwap(t *testing.T) {
	s := swapOf(t, &version{number: 1}, handlers.SwapConfig{})
	defer s.Close()
	prepareProbe(t, s, "{}")
	met := make(chan int, 1)
	v2 := &faulty{version: version{number: 2}, inherit: func() { met <- s.Live() }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Replace(ctx, v2); err != nil || <-met != 1 {
		t.Errorf("got %v", err)
	}
}

func TestShadowThatPanicsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		s := swapOf(t, &version{number: 1}, handlers.SwapConfig{Closed: func(_ probe.Handler, err error) { told = append(told, fmt.Sprint(err)) }})
		h := prepareProbe(t, s, "{}")
		if err := s.Shadow(t.Context(), &faulty{version: version{number: 2}, release: disco, end: disco}); err != nil {
			t.Fatal(err)
		}
		probe.Release(prepareProbe(t, s, "{}"))
		s.Unshadow()
		says(t, h, "v1 {} 1")
		synctest.Wait()
		if want := "Release: panic: at the disco\npanic: at the disco"; len(told) != 1 || told[0] != want {
			t.Errorf("told %q", told)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// panicky panics when it is prepared, or tried.
type panicky struct{ answering }

func (p panicky) Prepare([]byte, probe.Target) (probe.Handler, error) {
	if p.answering == nil {
		panic("at the disco")
	}
	return p, nil
}

func (panicky) Try(context.Context) error { panic("at the disco") }

func TestAGenerationThatPanicsChangesNothing(t *testing.T) {
	s := swapOf(t, &version{number: 1}, handlers.SwapConfig{})
	defer s.Close()
	h := prepareProbe(t, s, "{}")
	for name, next := range map[string]panicky{"when it is prepared": {}, "when it is tried": {always(probe.Success, nil)}} {
		for _, act := range []func(context.Context, probe.Handler) error{s.Replace, s.Shadow} {
			if err := act(t.Context(), next); err == nil || !strings.HasSuffix(err.Error(), "panic: at the disco") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	says(t, h, "v1 {} 1")
}

// overtaken refuses a config, after something else has happened.
type overtaken struct {
	version
	meanwhile func()
}

func (o *overtaken) Prepare([]byte, probe.Target) (probe.Handler, error) {
	o.meanwhile()
	return nil, errTrap
}

// What a generation says of a config that was replaced meanwhile, or withdrawn, is of no
// account.
func TestAGenerationThatIsOvertaken(t *testing.T) {
	v1 := &overtaken{}
	s := swapOf(t, v1, handlers.SwapConfig{})
	defer s.Close()
	v1.meanwhile = func() {
		if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
			t.Error(err)
		}
	}
	says(t, prepareProbe(t, s, "{}"), "v2 {} 1")
	v3 := &overtaken{meanwhile: func() {}}
	other := handlers.NewSwap(handlers.SwapConfig{})
	defer other.Close()
	if err := other.Replace(t.Context(), v3); err != nil {
		t.Fatal(err)
	}
	why := errors.New("its file is gone")
	v3.meanwhile = func() { other.Withdraw(why) }
	if _, err := other.Prepare(nil, probe.Target{}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
