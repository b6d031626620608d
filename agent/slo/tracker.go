package slo

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/probe"
)

// maxGap is the longest time between two settlements that is measured. After a longer one the agent did not
// run meanwhile; the history has the same limit.
const maxGap = 3 * time.Minute

// Config configures a [Tracker]. Log is required.
type Config struct {
	// Past reads the time before an objective was known; nil: there is no history.
	Past Past
	File string // keeps the sums over restarts; "": none
	Log  *slog.Logger
}

// Tracker measures the objectives. It is an observer of ticks and a reader of states, and is safe for
// concurrent use.
type Tracker struct {
	cfg Config

	mu      sync.Mutex
	slos    []*objective
	series  map[record.Key]*series
	probes  map[id]*tracked
	loaded  map[string]saved // sums of the file whose objectives are not set yet, by definition
	stopped bool
}

// objective is an objective with its running sums.
type objective struct {
	config.SLO
	definition     string
	probes         int       // selected series
	up, down       int64     // how many of them count now
	at             time.Time // until when the sums have the time
	sums           sums
	good, bad      int64     // microseconds since the objective is known
	from, until    time.Time // the time to add from the history; equal if there is none
	failedAttempts int       // to add it
	retryPast      time.Time // when the next attempt may begin
}

// series is the successive probes with the same names, as in the history.
type series struct {
	live   []*tracked
	slos   []*objective // that select the series
	state  record.State
	spared bool
}

// id identifies a live probe.
type id struct {
	uid, container string
	kind           probe.Kind
}

func idOf(i *worker.Info) id { return id{i.PodUID, i.Container, i.Kind} }

// tracked is a live probe. More than one worker may observe it while its spec is replaced.
type tracked struct {
	info    worker.Info
	workers int
	state   record.State
	spared  bool
}

var (
	_ worker.Observer = (*Tracker)(nil)
	_ states.Reader   = (*Tracker)(nil)
)

// New returns a tracker without objectives. It reads the file of the configuration.
func New(cfg Config) *Tracker {
	t := &Tracker{cfg: cfg, series: make(map[record.Key]*series), probes: make(map[id]*tracked)}
	t.loaded = t.load()
	return t
}

// Set replaces the objectives. An objective keeps its sums as long as it counts the same time.
func (t *Tracker) Set(slos []config.SLO) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	old := t.slos
	t.slos = nil
	for i := range slos {
		next := &slos[i]
		k := slices.IndexFunc(old, func(o *objective) bool { return o.Name == next.Name && o.SameTime(next) })
		if k < 0 {
			t.slos = append(t.slos, t.newObjectiveLocked(next, now))
			continue
		}
		old[k].settle(now)
		old[k].SLO, old[k].probes, old[k].up, old[k].down = *next, 0, 0, 0
		t.slos = append(t.slos, old[k])
	}
	t.loaded = nil
	for _, s := range t.series {
		s.slos = t.selectingLocked(s)
		s.count(1)
	}
}

// newObjectiveLocked returns an objective with its sums of the file.
func (t *Tracker) newObjectiveLocked(slo *config.SLO, now time.Time) *objective {
	o := &objective{SLO: *slo, definition: definition(slo), at: now, sums: newSums(slo.Window), from: now.Add(-max(slo.Window, hoursFor)), until: now}
	if s, ok := t.loaded[o.definition]; ok && !s.At.After(now) {
		s.restore(o)
	}
	return o
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// settle adds the time until now to the sums.
func (o *objective) settle(now time.Time) {
	passed := now.Sub(o.at).Microseconds()
	if passed <= 0 {
		return
	}
	o.at = o.at.Add(time.Duration(passed) * time.Microsecond)
	if passed > maxGap.Microseconds() || o.up == 0 && o.down == 0 {
		return
	}
	end := now.UnixMicro() // of the wall clock, which may have been set meanwhile
	o.sums.add(end-passed, end, o.up, o.down)
	o.good += passed * o.up
	o.bad += passed * o.down
}

// count adds a series to its objectives, or removes it for by -1. The objectives are settled.
func (s *series) count(by int64) {
	for _, o := range s.slos {
		o.probes += int(by)
		switch {
		case s.spared && o.Maintenance == config.UptimeExclude:
		case s.state.IsUp():
			o.up += by
		case s.state.IsDown():
			o.down += by
		}
	}
}

func (t *Tracker) settleLocked(slos []*objective) {
	if t.stopped {
		return
	}
	now := time.Now()
	for _, o := range slos {
		o.settle(now)
	}
}

// updateLocked computes the state of a series after a change of its live probes, or of their labels.
func (t *Tracker) updateLocked(key record.Key, s *series, relabelled bool) {
	state, spared := s.current()
	if state == s.state && spared == s.spared && !relabelled {
		return
	}
	slos := s.slos
	if relabelled {
		slos = t.selectingLocked(s)
	}
	t.settleLocked(s.slos)
	t.settleLocked(slos)
	s.count(-1)
	s.slos, s.state, s.spared = slos, state, spared
	s.count(1)
	if len(s.live) == 0 {
		delete(t.series, key)
	}
}

// current returns the state of the newest live probe that has decided one, and whether the time of a live
// probe is spared, as the history has them.
func (s *series) current() (state record.State, spared bool) {
	for _, p := range s.live {
		spared = spared || p.spared
		if p.state != record.Unknown {
			state = p.state
		}
	}
	return state, spared
}

// selectingLocked returns the objectives that select the newest live probe of a series.
func (t *Tracker) selectingLocked(s *series) (all []*objective) {
	if len(s.live) == 0 {
		return nil
	}
	facts := maintenance.FactsOf(&s.live[len(s.live)-1].info)
	for _, o := range t.slos {
		if o.Selects(facts) {
			all = append(all, o)
		}
	}
	return all
}

func keyOf(i *worker.Info) record.Key {
	return record.Key{Namespace: i.Namespace, Pod: i.Pod, Container: i.Container, Kind: i.Kind}
}

// Observe implements [worker.Observer].
func (t *Tracker) Observe(info worker.Info) worker.ProbeObserver {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probes[idOf(&info)]
	if p == nil {
		p = &tracked{info: info}
		t.probes[idOf(&info)] = p
		key := keyOf(&info)
		if t.series[key] == nil {
			t.series[key] = &series{}
		}
		t.series[key].live = append(t.series[key].live, p)
	}
	t.describeLocked(p, &info)
	p.workers++
	return observed{t, p}
}

// observed is the observer of a probe.
type observed struct {
	tracker *Tracker
	probe   *tracked
}

var _ worker.ProbeObserver = observed{}

func (observed) Tick(*worker.Tick)              {}
func (observed) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (o observed) Close() {
	t, p := o.tracker, o.probe
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.workers--; p.workers > 0 {
		return
	}
	delete(t.probes, idOf(&p.info))
	key := keyOf(&p.info)
	if s := t.series[key]; s != nil {
		s.live = slices.DeleteFunc(s.live, func(other *tracked) bool { return other == p })
		t.updateLocked(key, s, true)
	}
}

// Changed implements [states.Reader].
func (t *Tracker) Changed(c *states.Change) {
	if c.Forced {
		return // its time counts as the state of before, as a pause does
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probes[idOf(&c.Info)]
	if p == nil {
		return
	}
	p.state = record.State(c.To)
	if c.Removed {
		p.state = record.Unknown // until the worker ends, or its replacement decides
	}
	t.changedLocked(p, c.Info.Handler)
}

// changedLocked computes the state of the series of a probe.
func (t *Tracker) changedLocked(p *tracked, handler string) {
	relabelled := handler != "" && p.info.Handler != handler
	if relabelled {
		p.info.Handler = handler
	}
	key := keyOf(&p.info)
	t.updateLocked(key, t.series[key], relabelled)
}

// Spare counts the time of a probe from now on as maintenance, or for its state again.
func (t *Tracker) Spare(i *worker.Info, spared bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.probes[idOf(i)]; p != nil {
		p.spared = spared
		t.changedLocked(p, "")
	}
}

// Differs reports whether [Tracker.Relabel] must compare a probe with the objectives again.
func (t *Tracker) Differs(i *worker.Info) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probes[idOf(i)]
	return p != nil && (p.info.PodMeta != i.PodMeta || p.info.Handler != i.Handler)
}

// Relabel compares probes with the objectives again, whose labels or handlers may have changed.
func (t *Tracker) Relabel(probes []worker.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range probes {
		if p := t.probes[idOf(&probes[i])]; p != nil {
			t.describeLocked(p, &probes[i])
		}
	}
}

// describeLocked sets the labels and the handler of a probe, and compares it with the objectives.
func (t *Tracker) describeLocked(p *tracked, i *worker.Info) {
	p.info.PodMeta, p.info.Handler = i.PodMeta, i.Handler
	key := keyOf(&p.info)
	t.updateLocked(key, t.series[key], true)
}

// End tells the tracker that the agent is stopping: no time is measured from now on.
func (t *Tracker) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(t.slos)
	t.stopped = true
}

// Statuses returns the objectives as of now. For a key that is not nil, it returns only the ones that
// select its probe.
func (t *Tracker) Statuses(key *record.Key) []api.SLO {
	t.mu.Lock()
	defer t.mu.Unlock()
	slos := t.slos
	if key != nil {
		slos = nil
		if s := t.series[*key]; s != nil {
			slos = s.slos
		}
	}
	t.settleLocked(slos)
	now, all := time.Now().UnixMicro(), make([]api.SLO, len(slos))
	for i, o := range slos {
		all[i] = api.SLO{
			Name: o.Name, Objective: o.Objective, Window: timespan.Format(o.Window), Match: maintenance.APIMatch(o.Match),
			Maintenance: string(o.Maintenance), Probes: o.probes, Failing: int(o.down),
		}
		for _, kind := range o.Kinds {
			all[i].Kinds = append(all[i].Kinds, kind.String())
		}
		o.sums.fill(&all[i], &o.SLO, now)
	}
	return all
}

// Counts returns the objectives for the metrics. It costs no more time than there are objectives.
func (t *Tracker) Counts() []agentmetrics.SLO {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(t.slos)
	all := make([]agentmetrics.SLO, len(t.slos))
	for i, o := range t.slos {
		all[i] = agentmetrics.SLO{Name: o.Name, Objective: math.Round(o.Objective*1e10) / 1e12, Good: float64(o.good) / 1e6, Bad: float64(o.bad) / 1e6}
	}
	return all
}
