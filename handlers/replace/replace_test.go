package replace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

var errTrap = &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("trap")}

// version is one generation of a plugin. It answers with its number and its config.
type version struct {
	number  int
	refuses string        // configs that contain this text are refused
	breaks  error         // error of Try
	hold    chan struct{} // if not nil, attempts wait for it

	prepared, ended, tried atomic.Int32
	closed                 atomic.Bool
}

func (v *version) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return (&boundVersion{of: v}).Probe(ctx, req)
}

func (v *version) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	if v.refuses != "" && strings.Contains(string(config), v.refuses) {
		return nil, fmt.Errorf("config %s is refused", config)
	}
	v.prepared.Add(1)
	return &boundVersion{of: v, config: string(config), kept: new(atomic.Int32)}, nil
}

func (v *version) Close() error {
	v.closed.Store(true)
	return nil
}

type boundVersion struct {
	of     *version
	config string
	kept   *atomic.Int32 // number of attempts of the probe so far
}

func (b *boundVersion) Probe(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
	if b.of.closed.Load() {
		return probe.Outcome{}, errors.New("used after it was closed")
	}
	if b.of.hold != nil {
		select {
		case <-b.of.hold:
		case <-ctx.Done():
			return probe.Outcome{}, ctx.Err()
		}
	}
	n := int32(0)
	if b.kept != nil {
		n = b.kept.Add(1)
	}
	return probe.Outcome{Result: probe.Success, Output: fmt.Sprintf("v%d %s %d", b.of.number, b.config, n)}, nil
}

func (b *boundVersion) Inherit(from probe.Handler) { b.kept = from.(*boundVersion).kept }

func (b *boundVersion) Try(context.Context) error {
	b.of.tried.Add(1)
	return b.of.breaks
}

func (b *boundVersion) Release() { b.of.ended.Add(1) }

// handlerWith returns a Handler whose first generation is v.
func handlerWith(t testing.TB, v probe.Handler, cfg replace.Config) *replace.Handler {
	t.Helper()
	cfg.Name = "demo"
	h := replace.New(cfg)
	if err := h.Replace(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return h
}

func current(h *replace.Handler) probe.Handler {
	current, _ := h.Current()
	return current
}

func generation(h *replace.Handler) int {
	_, generation := h.Current()
	return generation
}

func prepareProbe(t testing.TB, s *replace.Handler, config string) probe.Handler {
	t.Helper()
	h, err := s.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantAnswer(t testing.TB, h probe.Handler, want string) {
	t.Helper()
	out, err := h.Probe(t.Context(), probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Second}})
	if err != nil || out.Output != want {
		t.Errorf("got %q, %v; want %q", out.Output, err, want)
	}
}

func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := &version{number: 1}, &version{number: 2}
		var closed []probe.Handler
		s := handlerWith(t, v1, replace.Config{Closed: func(h probe.Handler, _ error) { closed = append(closed, h) }})
		a, b := prepareProbe(t, s, `{"a":1}`), prepareProbe(t, s, `{"b":1}`)
		wantAnswer(t, a, `v1 {"a":1} 1`)
		if err := s.Replace(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !v1.closed.Load() || len(closed) != 1 || closed[0] != v1 || v1.ended.Load() != 2 {
			t.Errorf("v1 closed: %v, callback for %v, %d of its probes; want both of them", v1.closed.Load(), closed, v1.ended.Load())
		}
		wantAnswer(t, a, `v2 {"a":1} 2`) // the probe keeps its store
		wantAnswer(t, b, `v2 {"b":1} 1`)
		if generation(s) != 2 || current(s) != v2 || v2.prepared.Load() != 2 || v2.tried.Load() != 1 {
			t.Errorf("generation %d, %v, prepared %d, tried %d", generation(s), current(s), v2.prepared.Load(), v2.tried.Load())
		}
		if err := s.Close(); err != nil || !v2.closed.Load() {
			t.Errorf("closed %v, %v", v2.closed.Load(), err)
		}
		if err := s.Replace(t.Context(), v1); !errors.Is(err, replace.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReplaceRefusedChangesNothing(t *testing.T) {
	v1 := &version{number: 1}
	s := handlerWith(t, v1, replace.Config{})
	defer s.Close()
	a, b := prepareProbe(t, s, `{"key":"hunter2"}`), prepareProbe(t, s, `{"b":1}`)
	a.(probe.SecretKeeper).KeepSecret(func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") })
	for _, c := range []struct {
		name string
		v    *version
		want string
	}{
		{"refuses a live config", &version{refuses: "key"}, `the configs of 1 of 2 probes are refused: config {"key":"[redacted]"} is refused`},
		{"breaks when it is tried", &version{breaks: errTrap}, "trap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Replace(t.Context(), c.v); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if c.v.closed.Load() || c.v.prepared.Load() != c.v.ended.Load() {
				t.Errorf("closed %v, %d probes prepared, %d ended", c.v.closed.Load(), c.v.prepared.Load(), c.v.ended.Load())
			}
			out, err := b.Probe(t.Context(), probe.Request{})
			if err != nil || !strings.HasPrefix(out.Output, "v1 ") || current(s) != v1 || generation(s) != 1 {
				t.Errorf("got %q, %v, generation %d", out.Output, err, generation(s))
			}
		})
	}
	// The config of a probe that has ended is ignored.
	if probe.Release(a); s.Live() != 1 {
		t.Errorf("%d live", s.Live())
	}
	if err := s.Replace(t.Context(), &version{number: 3, refuses: "key"}); err != nil {
		t.Error(err)
	}
}

func TestWithdraw(t *testing.T) {
	v1 := &version{number: 1}
	s := handlerWith(t, v1, replace.Config{})
	defer s.Close()
	a := prepareProbe(t, s, `{}`)
	wantAnswer(t, a, "v1 {} 1")
	why := errors.New("its file is gone")
	s.Withdraw(why)
	_, err := a.Probe(t.Context(), probe.Request{})
	if !errors.Is(err, why) || err.Error() != `plugin "demo": its file is gone` || probe.ReasonOf(err) != probe.ReasonInstantiate {
		t.Errorf("got %v", err)
	}
	if _, err := s.Prepare(nil, probe.Target{}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, a, "v2 {} 2")
}

// TestAttemptsOfOldGenerationEnd checks that an old generation is closed after its last attempt, or after the
// longest timeout. Attempts in the new generation do not wait for that.
func TestAttemptsOfOldGenerationEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1 := &version{number: 1, hold: make(chan struct{})}
		s := handlerWith(t, v1, replace.Config{})
		a := prepareProbe(t, s, `{}`)
		answer := make(chan string)
		ask := func() {
			out, err := a.Probe(t.Context(), probe.Request{Spec: probe.Spec{Timeout: 10 * time.Second}})
			answer <- fmt.Sprint(out.Output, err)
		}
		go ask()
		synctest.Wait()
		if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, a, "v2 {} 1")
		time.Sleep(9 * time.Second)
		if v1.closed.Load() {
			t.Error("closed while an attempt was under way")
		}
		close(v1.hold)
		if got := <-answer; got != "v1 {} 2<nil>" {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if !v1.closed.Load() {
			t.Error("not closed after the last attempt")
		}
		v3 := &version{number: 3, hold: make(chan struct{})}
		if err := s.Replace(t.Context(), v3); err != nil {
			t.Fatal(err)
		}
		go ask()
		synctest.Wait()
		s.Withdraw(errTrap)
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) != 10*time.Second+10*time.Millisecond || !v3.closed.Load() {
			t.Errorf("%v after %s, closed %v", err, time.Since(start), v3.closed.Load())
		}
		close(v3.hold)
		<-answer
	})
}

// TestReplaceUnderLoad checks that probes continue during replacements while others start and end, and
// that none uses a closed generation.
func TestReplaceUnderLoad(t *testing.T) {
	s := handlerWith(t, &version{number: 1}, replace.Config{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				h, err := s.Prepare([]byte(`{}`), probe.Target{})
				if err != nil {
					t.Error(err)
					return
				}
				for range 50 {
					req := probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Minute}} // the machine may be stopped meanwhile
					if _, err := h.Probe(t.Context(), req); err != nil {
						t.Error(err)
						return
					}
				}
				probe.Release(h)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for n := range 1000 {
		if err := s.Replace(t.Context(), &version{number: n}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil || s.Live() != 0 || generation(s) != 1001 {
		t.Errorf("%v; %d live, generation %d", err, s.Live(), generation(s))
	}
}

type quick struct{}

func (quick) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{}, nil
}

// BenchmarkProbe measures the cost of a replaceable handler per attempt.
func BenchmarkProbe(b *testing.B) {
	direct := probe.Handler(quick{})
	s := handlerWith(b, direct, replace.Config{})
	bound := prepareProbe(b, s, "{}")
	for name, h := range map[string]probe.Handler{"direct": direct, "replaceable": bound} {
		b.Run("handler="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.Probe(b.Context(), probe.Request{Spec: probe.Spec{Timeout: time.Second}})
			}
		})
		b.Run("parallel/handler="+name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = h.Probe(context.Background(), probe.Request{Spec: probe.Spec{Timeout: time.Second}})
				}
			})
		})
	}
}

// TestInheritAndReplace checks that a probe that is bound again keeps its store, whether the generation
// is replaced before or after Inherit.
func TestInheritAndReplace(t *testing.T) {
	for _, first := range []string{"inherit", "replace"} {
		t.Run(first+" first", func(t *testing.T) {
			s := handlerWith(t, &version{number: 1}, replace.Config{})
			defer s.Close()
			old := prepareProbe(t, s, "a")
			wantAnswer(t, old, "v1 a 1")
			heir := prepareProbe(t, s, "b")
			steps := []func(){
				func() { probe.Inherit(heir, old) },
				func() {
					if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
						t.Error(err)
					}
				},
			}
			if first == "replace" {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				step()
			}
			wantAnswer(t, heir, "v2 b 2")
		})
	}
}

// TestAttemptAfterRelease has a probe that makes one more attempt after its release.
func TestAttemptAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handlerWith(t, &version{number: 1}, replace.Config{})
		h := prepareProbe(t, s, "a")
		probe.Release(h)
		wantAnswer(t, h, "v1 a 1")
		if err := s.Replace(t.Context(), &version{number: 2}); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Probe(t.Context(), probe.Request{Attempt: 2}); err == nil {
			t.Errorf("got %+v of a generation that is closed", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReplaceStopsAtFirstTimeout checks that a version that times out for the first config is not asked
// about the others.
func TestReplaceStopsAtFirstTimeout(t *testing.T) {
	s := handlerWith(t, &version{number: 1}, replace.Config{})
	for range 3 {
		prepareProbe(t, s, "a")
	}
	for _, cause := range []error{context.DeadlineExceeded, probe.ErrNoSlot} {
		h := &hanging{cause: cause}
		if err := s.Replace(t.Context(), h); !errors.Is(err, cause) || h.asked != 1 {
			t.Errorf("got %v after %d configs, want %v after one", err, h.asked, cause)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// hanging is a version of a plugin that does not answer.
type hanging struct {
	version
	cause error
	asked int
}

func (h *hanging) Prepare([]byte, probe.Target) (probe.Handler, error) {
	h.asked++
	return nil, fmt.Errorf("validate_config: %w", h.cause)
}
