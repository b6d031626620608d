package history_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// rig is a running store in a synctest bubble.
type rig struct {
	t     testing.TB
	store *history.Store
	stop  func() // stops the agent in order
}

// run runs a store without durability.
func run(t testing.TB, cfg history.Config) *rig { return runStore(t, history.New(history.Lazy(cfg))) }

func runStore(t testing.TB, store *history.Store) *rig {
	r := &rig{t: t, store: store}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.store.Run(ctx) })
	end := sync.OnceFunc(func() { cancel(); running.Wait() })
	r.stop = func() { r.store.End(); end() }
	t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

// info returns the identity of a probe.
func info(pod, uid string) worker.Info {
	return worker.Info{Subject: results.Subject{Namespace: "default", Pod: pod, PodUID: uid, Container: "web"}, Kind: probe.Readiness, Handler: "http"}
}

func key(pod string) history.Key {
	return history.Key{Namespace: "default", Pod: pod, Container: "web", Kind: probe.Readiness}
}

// change reports a change of state to the store, with the present time.
func (r *rig) change(of worker.Info, to states.State, text string) {
	from := states.Failure
	if to == from {
		from = states.Success
	}
	r.store.Changed(&states.Change{Info: of, From: from, To: to, Time: time.Now(), Cause: states.Cause{Reason: "dns", Text: text}})
}

// settle waits until everything is written.
func (r *rig) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// report returns the items of a report.
func (r *rig) report(q history.Query) (page history.Page, items []api.ReportItem) {
	r.t.Helper()
	if q.Until.IsZero() {
		q.Until = time.Now()
	}
	if q.Match == nil {
		q.Match = func(*history.Key) bool { return true }
	}
	err := r.store.Report(r.t.Context(), &q, func(p *history.Page) error { page = *p; return nil },
		func(i *api.ReportItem) error { items = append(items, *i); return nil })
	if err != nil {
		r.t.Fatal(err)
	}
	return page, items
}

// only returns the single item of a report with incidents.
func (r *rig) only() api.ReportItem {
	r.t.Helper()
	_, items := r.report(history.Query{Incidents: true})
	if len(items) != 1 {
		r.t.Fatalf("%d items: %+v", len(items), items)
	}
	return items[0]
}

// some returns n, or raced under the race detector.
func some(n, raced int) int {
	if thorough {
		return n
	}
	return raced
}

// words formats the seconds and the incidents of an item.
func words(i *api.ReportItem) string {
	s := i.Seconds
	var text strings.Builder
	fmt.Fprintf(&text, "success %.0f warning %.0f failure %.0f unknown %.0f", s.Success, s.Warning, s.Failure, s.Unknown)
	for _, in := range i.Incidents {
		end := "lasts"
		if !in.End.IsZero() {
			end = in.End.Format(time.TimeOnly)
		}
		fmt.Fprintf(&text, "; %s-%s %.0fs %s", in.Start.Format(time.TimeOnly), end, in.DurationSeconds, in.Text)
	}
	return text.String()
}

// tick returns a tick with the given duration.
func tick(result probe.Result, took time.Duration) *worker.Tick {
	now := time.Now()
	return &worker.Tick{Start: now.Add(-took), End: now, Outcome: probe.Outcome{Result: result}, Counted: true}
}
