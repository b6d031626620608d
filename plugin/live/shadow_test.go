package live_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/probe"
)

// withShadow returns a rig with a plugin a of version 1.0.0, a probe of it, and a shadow of
// version 2.0.0. more is added to the entry of the shadow.
func withShadow(t *testing.T, more string) (*rig, probe.Handler) {
	t.Helper()
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.put("next.wasm", "a", "2.0.0")
	r.shadow(more)
	r.apply("")
	h := r.prepare("a") // loads both
	if s := r.checkState("a", live.Running, "1.0.0"); s.Shadow == nil || s.Shadow.Plugin.Manifest.Version != "2.0.0" {
		t.Fatalf("got %+v", s.Shadow)
	}
	return r, h
}

func (r *rig) shadow(more string) {
	r.t.Helper()
	r.write("prober.yaml", "plugins: [{name: a, shadow: true, source: next.wasm"+more+"}]\n")
}

func TestPromote(t *testing.T) {
	r, h := withShadow(t, "")
	checkOutput(t, h, "1.0.0")
	if _, err := r.Promote(t.Context(), "b"); !errors.Is(err, live.ErrNoPlugin) {
		t.Errorf("got %v", err)
	}
	s, err := r.Promote(t.Context(), "a")
	if err != nil || s.Plugin.Manifest.Version != "2.0.0" || s.Shadow != nil || s.Generation != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	checkOutput(t, h, "2.0.0")
	if _, err := r.Promote(t.Context(), "a"); !errors.Is(err, replace.ErrNoShadow) {
		t.Errorf("got %v", err)
	}
	r.apply("") // the files have not changed, so the promoted version stays
	checkOutput(t, h, "2.0.0")
	r.put("plugins/a.wasm", "a", "3.0.0")
	r.apply("")
	checkOutput(t, h, "3.0.0")
}

func TestShadowThatAgreesIsPromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := withShadow(t, ", promoteAfter: {ticks: 5, agreement: 0.9}")
		for n := range 6 {
			if promoted := r.PromoteDue(t.Context()); promoted != (n == 5) {
				t.Errorf("after %d ticks: promoted is %t", n, promoted)
			}
			tick(t, h)
		}
		checkOutput(t, h, "2.0.0")
	})
}

// tick makes an attempt, and waits for the attempt of the shadow.
func tick(t *testing.T, h probe.Handler) {
	t.Helper()
	if _, err := h.Probe(t.Context(), probe.Request{Attempt: 1}); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// After a failed promotion, the manager tries the next version only.
func TestShadowThatCannotBePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := withShadow(t, ", promoteAfter: {ticks: 1, agreement: 0.1}")
		other, err := r.Prepare(t.Context(), "a", []byte(`{"refused":1}`), probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("not this config")
		r.made["2.0.0"].refuse.Store(&why)
		for range 2 {
			tick(t, h)
			if r.PromoteDue(t.Context()) {
				t.Error("it was promoted, though it refuses a config")
			}
		}
		r.put("next.wasm", "a", "3.0.0")
		r.apply("")
		tick(t, h)
		if !r.PromoteDue(t.Context()) {
			t.Error("the next version was not promoted")
		}
		checkOutput(t, h, "3.0.0")
		probe.Release(other)
	})
}

func TestBrokenShadowChangesNothing(t *testing.T) {
	r, h := withShadow(t, "")
	r.broken["3.0.0"] = errors.New("it does not compile")
	r.put("next.wasm", "a", "3.0.0")
	for range 2 {
		r.apply("it does not compile")
	}
	s := r.checkState("a", live.Running, "1.0.0")
	if s.Err != nil || s.Shadow.Plugin.Manifest.Version != "2.0.0" || s.Shadow.Err == nil {
		t.Errorf("got %+v, %+v", s, s.Shadow)
	}
	r.put("next.wasm", "a", "1.0.0") // the same version as the plugin
	r.apply("")
	if s := r.checkState("a", live.Running, "1.0.0"); s.Shadow != nil {
		t.Errorf("got %+v", s.Shadow)
	}
	checkOutput(t, h, "1.0.0")
}

// A broken shadow is reported, and does not prevent Prepare.
func TestBrokenShadowOfFirstProbe(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.put("next.wasm", "a", "2.0.0")
	r.broken["2.0.0"] = errors.New("it does not compile")
	r.shadow("")
	r.apply("")
	checkOutput(t, r.prepare("a"), "1.0.0")
	if len(r.errs) == 0 || !strings.Contains(errors.Join(r.errs...).Error(), "it does not compile") {
		t.Errorf("demanded %v", r.errs)
	}
}

func TestShadowStopsWhenEntryIsRemoved(t *testing.T) {
	r, h := withShadow(t, "")
	r.remove("next.wasm") // its entry stays
	r.apply("no such file")
	if s, _ := r.Status("a"); s.Shadow == nil {
		t.Error("a shadow is dropped, though its file cannot be read")
	}
	r.write("prober.yaml", "")
	r.apply("")
	if s, _ := r.Status("a"); s.Shadow != nil {
		t.Errorf("got %+v", s.Shadow)
	}
	checkOutput(t, h, "1.0.0")
}

func TestShadowWithoutPlugin(t *testing.T) {
	r := newRig(t)
	r.put("next.wasm", "a", "2.0.0")
	r.shadow("")
	r.apply("there is no plugin of that name for it to run beside")
}
