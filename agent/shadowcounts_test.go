package agent

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// well is a plugin whose targets are always well.
type well struct{ _ byte }

func (*well) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// refusing is a plugin that takes no config any more.
type refusing struct {
	well
	refuses       bool
	asked, answer chan struct{}
}

func (r *refusing) Prepare([]byte, probe.Target) (probe.Handler, error) {
	if !r.refuses {
		return r, nil
	}
	close(r.asked)
	<-r.answer
	return nil, errors.New("not this one")
}

// A version that comes the moment after another was refused is not the one that was.
func TestAShadowThatComesAfterARefusal(t *testing.T) {
	s := &handlerSet{plugins: make(map[string]*pluginRecord), log: slog.New(slog.DiscardHandler)}
	r := s.newRecord("demo")
	next := &refusing{asked: make(chan struct{}), answer: make(chan struct{})}
	if err := r.swap.Replace(t.Context(), new(well)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.swap.Prepare(nil, probe.Target{}); err != nil {
		t.Fatal(err)
	}
	if err := r.swap.Shadow(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	sh := &shadowRecord{mark: "v2", after: config.PromoteAfter{Ticks: 1}}
	sh.from.Agree -= 1 // one that counts
	r.shadow = sh
	next.refuses = true
	var house sync.WaitGroup
	house.Go(func() { s.promoteDue(t.Context()) })
	<-next.asked
	s.mu.Lock() // what is refused is noted no sooner than this is let go of
	close(next.answer)
	early := time.NewTimer(200 * time.Millisecond)
	defer early.Stop()
	select {
	case r.busy <- struct{}{}: // the next version may come already
		sh.mark, sh.refused = "v3", false
		s.mu.Unlock()
	case <-early.C:
		s.mu.Unlock()
		r.busy <- struct{}{}
		s.mu.Lock()
		sh.mark, sh.refused = "v3", false
		s.mu.Unlock()
	}
	r.unlock()
	if house.Wait(); sh.refused {
		t.Error("the next version is not promoted any more")
	}
	if err := r.swap.Close(); err != nil {
		t.Error(err)
	}
}

// What is shown of a comparison that begins anew is never less than nothing, and is no reason
// to promote a version.
func TestAComparisonThatBeginsAnew(t *testing.T) {
	s := &handlerSet{plugins: make(map[string]*pluginRecord), latest: new(admit.Snapshot)}
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
