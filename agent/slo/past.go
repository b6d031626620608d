package slo

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/config"
)

// Past calls each for the times from since until until in which probes with the keys that match selects
// were in one state, as [history.Store.Spans] does.
type Past func(ctx context.Context, since, until time.Time, match func(*history.Key) bool, each func(*history.Span)) error

const (
	stepEvery  = 15 * time.Second // between settlements
	saveEvery  = 5 * time.Minute
	pastAfter  = 30 * time.Second // when the past of an objective is read: its targets are known then
	pastWarned = 4                // attempts to read it after which the error is logged
)

// Run settles the sums, adds the past of new objectives, and saves the file, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	ticker := time.NewTicker(stepEvery)
	defer ticker.Stop()
	saved := time.Now()
	for {
		select {
		case <-ctx.Done():
			t.End()
			t.save()
			return
		case <-ticker.C:
		}
		t.mu.Lock()
		t.settleLocked(t.slos)
		t.mu.Unlock()
		t.addPast(ctx)
		if time.Since(saved) >= saveEvery {
			saved = time.Now()
			t.save()
		}
	}
}

// ancient is an objective whose past is to be read.
type ancient struct {
	*objective
	slo         config.SLO
	from, until time.Time
	past        sums
}

// addPast adds the past of the objectives that are new. It reads the history once for all of them.
func (t *Tracker) addPast(ctx context.Context) {
	due, labels := t.ancients()
	if len(due) == 0 {
		return
	}
	since, until := due[0].from, due[0].until
	for i := range due {
		if due[i].from.Before(since) {
			since = due[i].from
		}
		until = laterOf(until, due[i].until)
	}
	facts := func(k *history.Key) *config.ProbeFacts {
		return &config.ProbeFacts{Namespace: k.Namespace, Pod: k.Pod, Container: k.Container, Kind: k.Kind.String(), Labels: labels[k.Namespace+"/"+k.Pod]}
	}
	ofKind := func(k *history.Key) bool {
		return slices.ContainsFunc(due, func(a ancient) bool { return slices.Contains(a.slo.Kinds, k.Kind) })
	}
	err := t.cfg.Past(ctx, since, until, ofKind, func(s *history.Span) {
		f := facts(&s.Key)
		f.Handler = s.Handler
		for i := range due {
			if due[i].slo.Selects(f) {
				due[i].add(s)
			}
		}
	})
	t.merge(ctx, due, err)
}

// ancients returns the objectives whose past is due, and the labels of present pods by NAMESPACE/POD.
func (t *Tracker) ancients() (due []ancient, labels map[string]map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.Past == nil {
		return nil, nil
	}
	for _, o := range t.slos {
		if o.from.Before(o.until) && time.Since(o.until) >= pastAfter && !time.Now().Before(o.retryPast) {
			due = append(due, ancient{o, o.SLO, o.from, o.until, newSums(o.Window)})
		}
	}
	if len(due) == 0 {
		return nil, nil
	}
	labels = make(map[string]map[string]string)
	for _, p := range t.probes {
		if p.info.PodMeta != nil {
			labels[p.info.Namespace+"/"+p.info.Pod] = maps.Clone(p.info.PodMeta.Labels)
		}
	}
	return due, labels
}

// add adds a span of a probe that the objective selects.
func (a *ancient) add(s *history.Span) {
	from, to := laterOf(s.From, a.from), s.To
	if to.After(a.until) {
		to = a.until
	}
	if !from.Before(to) || s.Spared && a.slo.Maintenance == config.UptimeExclude {
		return
	}
	switch {
	case s.State.IsUp():
		a.past.add(from.UnixMicro(), to.UnixMicro(), 1, 0)
	case s.State.IsDown():
		a.past.add(from.UnixMicro(), to.UnixMicro(), 0, 1)
	}
}

// merge adds the past of objectives to their sums, unless it could not be read: the next step tries again.
func (t *Tracker) merge(ctx context.Context, due []ancient, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range due {
		o := due[i].objective
		if err != nil {
			o.retryPast = time.Now().Add(stepEvery << min(o.failedAttempts, 8)) // each attempt reads weeks
			if o.failedAttempts++; o.failedAttempts == pastWarned && ctx.Err() == nil {
				t.cfg.Log.Warn("the past of an SLO cannot be read from the history", "slo", o.Name, "error", err)
			}
			continue
		}
		o.sums.minutes.merge(&due[i].past.minutes)
		o.sums.hours.merge(&due[i].past.hours)
		o.from = o.until
	}
}

// merge adds the time of another ring of the same shape.
func (r *ring) merge(other *ring) {
	for _, b := range other.buckets {
		if to := r.at(b.number); to != nil && b.good+b.bad > 0 {
			to.good += b.good
			to.bad += b.bad
		}
	}
}
