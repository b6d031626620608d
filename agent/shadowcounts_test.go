package agent

import (
	"context"
	"runtime"
	"testing"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// well is a plugin whose targets are always well.
type well struct{ _ byte }

func (*well) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// What is shown of a comparison that begins anew is never less than nothing, and is no reason
// to promote a version.
func TestAComparisonThatBeginsAnew(t *testing.T) {
	s := &handlerSet{plugins: make(map[string]*pluginRecord)}
	r := s.newRecord("demo")
	for _, step := range []func(context.Context, probe.Handler) error{r.swap.Replace, r.swap.Shadow} {
		if err := step(t.Context(), new(well)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := r.swap.Prepare(nil, probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	sh := &shadowRecord{mark: "next", after: config.PromoteAfter{Ticks: 1 << 40}}
	sh.f.Manifest, r.shadow = plugin.Minimal("demo"), sh
	for _, look := range []func() (agreed uint64, due bool){
		func() (uint64, bool) { return s.status(r).Shadow.Compared["agree"], false },
		func() (uint64, bool) { return 0, s.due(r) != nil },
	} {
		s.mu.Lock()
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			if n, due := look(); n > 1<<40 || due {
				t.Errorf("%d ticks were compared, it is to be promoted: %t", n, due)
			}
		}()
		for before := r.swap.Shadowing().Agree; r.swap.Shadowing().Agree < before+100; {
			_, _ = h.Probe(t.Context(), probe.Request{Attempt: 1})
			runtime.Gosched() // to who looks, too
		}
		sh.from = r.swap.Shadowing()
		s.mu.Unlock()
		<-looked
	}
	if err := r.swap.Close(); err != nil {
		t.Error(err)
	}
}
