package replace_test

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

// stuck is a version whose Close hangs.
type stuck struct {
	version
	end chan struct{}
}

func (s *stuck) Close() error {
	<-s.end
	return nil
}

func TestCloseThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := &stuck{end: make(chan struct{})}, &version{number: 2}
		var mu sync.Mutex
		closed := make(map[probe.Handler]error)
		h := handlerWith(t, v1, replace.Config{Closed: func(h probe.Handler, err error) {
			mu.Lock()
			defer mu.Unlock()
			closed[h] = err
		}})
		a := prepareProbe(t, h, `{"a":1}`)
		if err := h.Replace(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, a, `v2 {"a":1} 1`)
		start := time.Now()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := closed[v1]; err == nil || err.Error() != "not closed within 30s" || closed[v2] != nil || len(closed) != 2 {
			t.Errorf("closed %v", closed)
		}
		close(v1.end)
	})
}

// panicky is a version that panics in Close and in the Release of its probes.
type panicky struct{ version }

type panickyProbe struct{ probe.HandlerFunc }

func (panickyProbe) Release() { panic("in Release") }

func (*panicky) Prepare([]byte, probe.Target) (probe.Handler, error) { return panickyProbe{}, nil }
func (*panicky) Close() error                                        { panic("in Close") }

// TestVersionPanicsAtItsEnd checks that a panic at the end of an old version becomes an error of that
// version.
func TestVersionPanicsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan error, 2)
		h := handlerWith(t, new(panicky), replace.Config{Closed: func(_ probe.Handler, err error) {
			closed <- err
			panic("in Closed")
		}})
		for range 2 {
			prepareProbe(t, h, `{}`)
		}
		if err := h.Replace(t.Context(), &version{number: 2}); err != nil {
			t.Fatal(err)
		}
		if err, want := <-closed, "release: panic: in Release\nrelease: panic: in Release\npanic: in Close"; err == nil || err.Error() != want {
			t.Errorf("closed with\n%v, want\n%s", err, want)
		}
		if err := h.Close(); err != nil || <-closed != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestDrainOfHugeTimeout checks that an attempt without a deadline does not keep an old version for ever.
func TestDrainOfHugeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan time.Duration, 2)
		start := time.Now()
		v1 := &version{number: 1, hold: make(chan struct{})}
		h := handlerWith(t, v1, replace.Config{Closed: func(probe.Handler, error) { closed <- time.Since(start) }})
		a := prepareProbe(t, h, `{}`)
		go func() { _, _ = a.Probe(t.Context(), probe.Request{Spec: probe.Spec{Timeout: math.MaxInt64}}) }()
		synctest.Wait()
		if err := h.Replace(t.Context(), &version{number: 2}); err != nil {
			t.Fatal(err)
		}
		if took := <-closed; took < time.Hour {
			t.Errorf("closed after %v, with an attempt under way", took)
		}
		close(v1.hold)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// overtaken calls a function in Prepare, and refuses the config.
type overtaken struct {
	version
	meanwhile func()
}

func (o *overtaken) Prepare([]byte, probe.Target) (probe.Handler, error) {
	o.meanwhile()
	return nil, errTrap
}

// TestPrepareDuringReplace checks that the answer of a generation that was replaced or withdrawn during
// Prepare is ignored.
func TestPrepareDuringReplace(t *testing.T) {
	v1 := new(overtaken)
	h := replace.New(replace.Config{})
	defer h.Close()
	if err := h.Replace(t.Context(), v1); err != nil {
		t.Fatal(err)
	}
	t.Run("replaced", func(t *testing.T) {
		v1.meanwhile = func() {
			if err := h.Replace(t.Context(), &version{number: 2}); err != nil {
				t.Error(err)
			}
		}
		wantAnswer(t, prepareProbe(t, h, "{}"), "v2 {} 1")
	})
	t.Run("withdrawn", func(t *testing.T) {
		v3, why := new(overtaken), errors.New("its file is gone")
		v3.meanwhile = func() {}
		other := handlerWith(t, v3, replace.Config{})
		defer other.Close()
		v3.meanwhile = func() { other.Withdraw(why) }
		if _, err := other.Prepare(nil, probe.Target{}); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}
