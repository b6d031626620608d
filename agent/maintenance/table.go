// Package maintenance decides which probes are in a maintenance window now. A window comes from prober.yaml,
// or from a client of the API.
//
// Read [Table] first. request.go reads a window of a client, and file.go saves it over restarts. The windows
// of prober.yaml are entries of [config.Agent].
package maintenance

import (
	"cmp"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/window"
)

// Active is the present maintenance of a probe. It is immutable. Of several windows, it has the name and the
// reason of the one that ends last, by name.
type Active struct {
	Name   string
	Reason string
	Until  time.Time
	Spared bool // reports count the time for no state
}

// Change is a probe whose maintenance has begun, changed or ended.
type Change struct {
	Info worker.Info
	Now  *Active // nil: the probe is in no window of all receivers
	// Receivers are the receivers in whose windows it is, sorted. They are read-only.
	Receivers []string
}

// Window is a maintenance window with its present state.
type Window struct {
	config.Maintenance
	By    string    // who has made it; "" for one of prober.yaml
	Until time.Time // end of the present span; zero if the window is not active
	// Receivers are the only receivers that the window concerns, sorted; none: all. Its probes are in no
	// maintenance then, except for these receivers.
	Receivers []string
}

// Next returns the begin and the end of the present or the next span; the zero times if there is none.
func (w *Window) Next(now time.Time) (begin, end time.Time) {
	begin, end = w.Window.Next(now)
	if !w.Until.IsZero() {
		end = w.Until
	}
	return begin, end
}

// Config configures a [Table]. Changed, Began and Ended are required, are called with no lock held, and must not block.
type Config struct {
	// Changed is called with the probes whose maintenance has changed: in order, and not concurrently. A probe
	// that begins in a window is among them.
	Changed func([]Change)
	// Began and Ended are called once for each window that begins or ends, before Changed.
	Began, Ended func(*Window)
	Log          *slog.Logger
	// Now returns the time of the wall clock, and is called with a lock held; nil uses [time.Now].
	Now func() time.Time
}

// maxWait is the longest time between two looks at the clock while a window is to begin or to end: the wall
// clock may be set, and a timer does not run while the host sleeps.
const maxWait = time.Minute

// maxByClients limits the windows of clients.
const maxByClients = 1000

// Table has all windows, and the probes that each of them selects. It compares a probe with the windows when
// a window, the probe or its labels change. One timer begins and ends all windows, which costs time for their
// probes only. It is safe for concurrent use.
type Table struct {
	cfg  Config
	file file

	mu      sync.Mutex
	windows []*entry // of prober.yaml first
	probes  map[manager.Key]*tracked
	timer   *time.Timer
	closed  bool
	queue   []func() // calls of cfg that are to come
	calling bool     // a goroutine makes the calls of queue
	unsaved bool     // the windows of clients have changed
}

// entry is a window with the probes that it selects.
type entry struct {
	Window
	probes map[*tracked]struct{}
}

// tracked is a probe with the windows that select it.
type tracked struct {
	info    worker.Info
	workers int // more than one while the probe is replaced
	windows []*entry
	now     *Active
	silent  []string // the receivers in whose windows it is, sorted
}

var _ worker.Observer = (*Table)(nil)

// New returns a table without windows.
func New(cfg Config) *Table {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Table{cfg: cfg, probes: make(map[manager.Key]*tracked)}
	t.timer = time.AfterFunc(time.Hour, t.tick)
	t.timer.Stop()
	return t
}

// Close stops the timer, and calls no function of the config any more: the end of the probes of an agent that stops
// is no end of their maintenance.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.timer.Stop()
}

// Set replaces the windows of prober.yaml. A window that is gone ends, and an unchanged one stays as it is.
func (t *Table) Set(windows []config.Maintenance) {
	defer t.finish()
	t.mu.Lock()
	defer t.mu.Unlock()
	old, byClients := make(map[string]*entry), []*entry(nil)
	for _, e := range t.windows {
		if e.By == "" {
			old[e.Name] = e
		} else {
			byClients = append(byClients, e)
		}
	}
	t.windows = nil
	changed := make(map[*tracked]struct{})
	for i := range windows {
		next := &windows[i]
		e := old[next.Name]
		delete(old, next.Name)
		switch {
		case e == nil:
			t.addLocked(&entry{Window: Window{Maintenance: *next}})
			continue
		case e.Equal(next):
		case sameProbes(&e.Maintenance, next):
			e.Maintenance = *next
			maps.Copy(changed, e.probes)
		default:
			t.replaceLocked(e, next, changed)
		}
		t.windows = append(t.windows, e)
	}
	for _, e := range old {
		t.removeLocked(e, changed)
	}
	t.windows = append(t.windows, byClients...)
	t.stepLocked(changed)
}

// sameProbes reports whether two windows select the same probes.
func sameProbes(a, b *config.Maintenance) bool {
	return (&config.Maintenance{Match: a.Match}).Equal(&config.Maintenance{Match: b.Match})
}

// addLocked adds a window, which is not active yet.
func (t *Table) addLocked(e *entry) {
	e.probes = make(map[*tracked]struct{})
	for _, p := range t.probes {
		e.joinIf(p)
	}
	t.windows = append(t.windows, e)
}

// replaceLocked gives a window other contents. Changed gets the probes that it selects no more.
func (t *Table) replaceLocked(e *entry, next *config.Maintenance, changed map[*tracked]struct{}) {
	e.Maintenance = *next
	maps.Copy(changed, e.probes)
	for p := range e.probes {
		p.leave(e)
	}
	clear(e.probes)
	for _, p := range t.probes {
		e.joinIf(p)
	}
	maps.Copy(changed, e.probes)
}

// removeLocked ends a window that is not in t.windows any more.
func (t *Table) removeLocked(e *entry, changed map[*tracked]struct{}) {
	for p := range e.probes {
		p.leave(e)
	}
	if !e.Until.IsZero() {
		maps.Copy(changed, e.probes)
		t.endedLocked(e)
	}
}

func (t *Table) endedLocked(e *entry) {
	w := e.Window
	w.Until = time.Time{}
	t.queue = append(t.queue, func() { t.cfg.Ended(&w) })
}

// joinIf makes e have a probe, if e selects it.
func (e *entry) joinIf(p *tracked) {
	if config.MatchesAny(e.Match, FactsOf(&p.info)) {
		e.probes[p] = struct{}{}
		p.windows = append(p.windows, e)
	}
}

func (p *tracked) leave(e *entry) {
	p.windows = slices.DeleteFunc(p.windows, func(other *entry) bool { return other == e })
}

// FactsOf returns what the fields match of prober.yaml compare of a probe.
func FactsOf(i *worker.Info) *config.ProbeFacts {
	facts := &config.ProbeFacts{Namespace: i.Namespace, Pod: i.Pod, Container: i.Container, Kind: i.Kind.String(), Handler: i.Handler}
	if i.PodMeta != nil {
		facts.Labels = i.PodMeta.Labels
	}
	return facts
}

// stepLocked begins and ends the windows that are due, and queues the changes of their probes and of others.
func (t *Table) stepLocked(changed map[*tracked]struct{}) {
	now := t.cfg.Now().Round(0) // the wall clock
	var next time.Time
	t.windows = slices.DeleteFunc(t.windows, func(e *entry) bool {
		spans := window.List{e.Window.Window}
		if until := spans.Until(now); !until.Equal(e.Until) {
			t.turnLocked(e, until)
			maps.Copy(changed, e.probes)
		}
		at := spans.Change(now)
		if at.IsZero() && e.By != "" {
			t.removeLocked(e, changed)
			t.unsaved = true
			return true
		}
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
		return false
	})
	t.compareLocked(changed)
	if !next.IsZero() && !t.closed {
		t.timer.Reset(min(next.Sub(now), maxWait))
	}
}

// turnLocked sets the end of the present span of a window; zero: it is not active.
func (t *Table) turnLocked(e *entry, until time.Time) {
	was := e.Until
	e.Until = until
	switch w := e.Window; {
	case was.IsZero():
		t.queue = append(t.queue, func() { t.cfg.Began(&w) })
	case until.IsZero():
		t.endedLocked(e)
	}
}

// compareLocked queues the changes of probes.
func (t *Table) compareLocked(probes map[*tracked]struct{}) {
	var changes []Change
	for p := range probes {
		if t.probes[keyOf(&p.info)] == p && p.update() {
			changes = append(changes, Change{p.info, p.now, p.silent})
		}
	}
	if len(changes) > 0 && !t.closed {
		t.queue = append(t.queue, func() { t.cfg.Changed(changes) })
	}
}

// update sets the present maintenance of a probe, and reports whether it has changed.
func (p *tracked) update() bool {
	var now *Active
	var silent []string
	for _, e := range p.windows {
		switch {
		case e.Until.IsZero():
			continue
		case len(e.Receivers) > 0:
			silent = append(silent, e.Receivers...)
			continue
		}
		next := &Active{e.Name, e.Reason, e.Until, e.Uptime == config.UptimeExclude}
		if now != nil {
			next.Spared = next.Spared || now.Spared
			if cmp.Or(now.Until.Compare(next.Until), cmp.Compare(next.Name, now.Name)) > 0 {
				next.Name, next.Reason, next.Until = now.Name, now.Reason, now.Until
			}
		}
		now = next
	}
	slices.Sort(silent)
	silent = slices.Compact(silent)
	same := (now == p.now || now != nil && p.now != nil && *now == *p.now) && slices.Equal(silent, p.silent)
	p.now, p.silent = now, silent
	return !same
}

// selected reports whether an active window selects the probe.
func (p *tracked) selected() bool { return p.now != nil || len(p.silent) > 0 }

// tick is called by the timer.
func (t *Table) tick() {
	defer t.finish()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.stepLocked(make(map[*tracked]struct{}))
	}
}

// call makes the calls of the queue. It returns at once if another goroutine makes them.
func (t *Table) call() {
	for {
		t.mu.Lock()
		calls := t.queue
		if t.calling || len(calls) == 0 {
			t.mu.Unlock()
			return
		}
		t.calling, t.queue = true, nil
		t.mu.Unlock()
		for _, f := range calls {
			f()
		}
		t.mu.Lock()
		t.calling = false
		t.mu.Unlock()
	}
}

// finish is call for a change of windows: it saves the windows of clients too.
func (t *Table) finish() {
	t.call()
	t.mu.Lock()
	save := t.unsaved
	t.unsaved = false
	t.mu.Unlock()
	if save {
		t.save()
	}
}

func keyOf(i *worker.Info) manager.Key {
	return manager.Key{PodUID: types.UID(i.PodUID), Container: i.Container, Kind: i.Kind}
}

// namesOf returns the names of a probe, which identify it to people.
func namesOf(i *worker.Info) [4]string {
	return [4]string{i.Namespace, i.Pod, i.Container, i.Kind.String()}
}

// Observe implements [worker.Observer].
func (t *Table) Observe(info worker.Info) worker.ProbeObserver {
	defer t.call()
	t.mu.Lock()
	defer t.mu.Unlock()
	key := keyOf(&info)
	p := t.probes[key]
	if p == nil {
		p = &tracked{}
		t.probes[key] = p
	}
	p.workers++
	was, before := p.selected(), p.info
	p.now, p.silent = nil, nil // so that readers of the new worker get a change
	t.describeLocked(p, info)
	if was && !t.closed && (!p.selected() || namesOf(&before) != namesOf(&info)) { // compareLocked saw no change
		t.queue = append(t.queue, func() { t.cfg.Changed([]Change{{Info: before}}) })
	}
	return observed{t, key}
}

// Relabel compares probes with the windows again, whose labels or handlers may have changed.
func (t *Table) Relabel(probes []worker.Info) {
	defer t.call()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range probes {
		if p := t.probes[keyOf(&probes[i])]; p != nil {
			t.describeLocked(p, probes[i])
		}
	}
}

// describeLocked sets the names and labels of a probe, and compares it with all windows.
func (t *Table) describeLocked(p *tracked, info worker.Info) {
	for _, e := range p.windows {
		delete(e.probes, p)
	}
	p.info, p.windows = info, nil
	for _, e := range t.windows {
		e.joinIf(p)
	}
	t.compareLocked(map[*tracked]struct{}{p: {}})
}

// observed is the observer of a probe.
type observed struct {
	table *Table
	key   manager.Key
}

var _ worker.ProbeObserver = observed{}

func (observed) Tick(*worker.Tick)              {}
func (observed) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (o observed) Close() {
	t := o.table
	defer t.call()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probes[o.key]
	if p.workers--; p.workers > 0 {
		return
	}
	for _, e := range p.windows {
		delete(e.probes, p)
	}
	p.windows = nil
	t.compareLocked(map[*tracked]struct{}{p: {}})
	delete(t.probes, o.key)
}

// Of returns the present maintenance of a probe; nil if it is in no window.
func (t *Table) Of(key manager.Key) *Active {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.probes[key]; p != nil {
		return p.now
	}
	return nil
}

// Windows returns all windows, first from prober.yaml, and the number of probes that each selects.
func (t *Table) Windows() (all []Window, probes []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.windows {
		all, probes = append(all, e.Window), append(probes, len(e.probes))
	}
	return all, probes
}

// Silence returns the active window of a single receiver that ends last, by name; false if there is none.
func (t *Table) Silence(receiver string) (last Window, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.windows {
		if e.Until.IsZero() || !slices.Contains(e.Receivers, receiver) {
			continue
		}
		if !ok || cmp.Or(e.Until.Compare(last.Until), cmp.Compare(last.Name, e.Name)) > 0 {
			last, ok = e.Window, true
		}
	}
	return last, ok
}

// Probes returns the probes that are in a window of all receivers now, unsorted. A probe of several windows is among
// them once for each.
func (t *Table) Probes() iter.Seq[worker.Info] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []worker.Info
	for _, e := range t.windows {
		if e.Until.IsZero() || len(e.Receivers) > 0 {
			continue
		}
		for p := range e.probes {
			all = append(all, p.info)
		}
	}
	return slices.Values(all)
}

// Differs reports whether [Table.Relabel] must compare a probe with the windows again.
func (t *Table) Differs(i *worker.Info) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probes[keyOf(i)]
	return p != nil && (p.info.PodMeta != i.PodMeta || p.info.Handler != i.Handler)
}

var (
	// ErrName is returned for a window of a client whose name another window has.
	ErrName = errors.New("there is a window of this name")
	// ErrOver is returned for a window that has ended already.
	ErrOver = errors.New("the window has ended already")
	// ErrMany is returned if clients have made too many windows.
	ErrMany = errors.New("clients have made too many windows: end some of them first")
	// ErrMissing is returned for a window that does not exist.
	ErrMissing = errors.New("there is no such window")
	// ErrConfigured is returned for the end of a window of prober.yaml.
	ErrConfigured = errors.New("the window is part of prober.yaml: change it there, and reload")
)

// Start adds a window of a client. By must be set. It returns the number of probes that the window selects.
func (t *Table) Start(w Window) (started Window, probes int, err error) {
	defer t.finish()
	t.mu.Lock()
	defer t.mu.Unlock()
	clients := 0
	for _, e := range t.windows {
		if e.Name == w.Name {
			return Window{}, 0, ErrName
		}
		if e.By != "" {
			clients++
		}
	}
	switch {
	case clients >= maxByClients:
		return Window{}, 0, ErrMany
	case window.List{w.Window}.Change(t.cfg.Now()).IsZero():
		return Window{}, 0, ErrOver
	}
	w.Until = time.Time{}
	e := &entry{Window: w}
	t.addLocked(e)
	t.unsaved = true
	t.stepLocked(make(map[*tracked]struct{}))
	return e.Window, len(e.probes), nil
}

// End ends a window of a client, and removes it.
func (t *Table) End(name string) error {
	defer t.finish()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := -1
	for i, e := range t.windows { // the last one, as a reload may have added one of the same name
		if e.Name == name {
			at = i
		}
	}
	switch {
	case at < 0:
		return ErrMissing
	case t.windows[at].By == "":
		return ErrConfigured
	}
	e, changed := t.windows[at], make(map[*tracked]struct{})
	t.windows = slices.Delete(t.windows, at, at+1)
	t.removeLocked(e, changed)
	t.unsaved = true
	t.stepLocked(changed)
	return nil
}

// byClients returns the windows of clients, sorted by name; ok is false if t is closed.
func (t *Table) byClients() (all []Window, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.windows {
		if e.By != "" {
			all = append(all, e.Window)
		}
	}
	slices.SortFunc(all, func(a, b Window) int { return cmp.Compare(a.Name, b.Name) })
	return all, !t.closed
}
