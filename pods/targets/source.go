package targets

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

const (
	// firstAnswer is how long Generate waits for the first list of a new source, and in a reload for the
	// list of each source.
	firstAnswer = 5 * time.Second
	// maxGone limits the remembered targets that are gone.
	maxGone = 2000
)

// Config is what a [Source] needs.
type Config struct {
	ConfigFile   string // prober.yaml; "": there are no targets
	Logger       *slog.Logger
	PollInterval time.Duration // between two checks of files
	Mark         string        // an environment variable of commands; see pods.Host

	// BindCheck is the field of [pods.Host]; nil: pushes and endpoints are ignored.
	BindCheck func(handler, name string, podUID types.UID) (probe.Handler, error)

	// Offline reads files only, and queries no service, name server or command. Then Generate returns an error for
	// each list that cannot be read, and for each target that is dropped for another reason than a rule.
	Offline bool
}

// Source provides the targets of prober.yaml. It is safe for concurrent use.
//
// Call [New], then Generate, and then Run.
type Source struct {
	cfg Config

	mu       sync.Mutex // held by Generate
	stamp    string     // stamp of prober.yaml when it was last read
	err      error      // error of its targets
	read     []compiled // groups that are not checked yet; nil: none
	groups   []compiled // the last good groups
	added    []check    // read with read
	checks   []check    // the last good ones
	checked  map[*group]bool
	fetchers map[string]*fetcher           // by key
	cancels  map[string]context.CancelFunc // of running fetchers, by key
	before   *result
	gone     []pods.Target

	fresh  chan struct{} // holds a token while Run may have to start a fetcher
	latest atomic.Pointer[listing]
}

// listing is the result of Generate, for Targets. It is read-only.
type listing struct {
	result   *result
	targets  []pods.Target // targets of result, followed by targets that are gone
	lists    []list
	fetchers []*fetcher // of lists; nil for static
}

// New returns a source that has not read anything.
func New(cfg Config) *Source {
	return &Source{
		cfg: cfg, checked: make(map[*group]bool), fetchers: make(map[string]*fetcher), cancels: make(map[string]context.CancelFunc),
		fresh: make(chan struct{}, 1),
	}
}

// Generate returns the pods of all targets. Unchanged pods are the same objects as before. It reads
// prober.yaml if the file has changed. With all, it queries every source again. others are pods that
// are not targets, whose names are taken. check is called with a pod of each new group.
//
// If the targets in prober.yaml have an error, Generate returns it, and keeps the last good targets. An error in the
// rest of the file is returned by the first call only, since the agent reports it for the plugins.
func (s *Source) Generate(ctx context.Context, all bool, others []*declared.Pod, check func(*declared.Pod) []error) ([]*declared.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkLocked(all, others, check); err != nil {
		return nil, err
	}
	s.openLocked(ctx, all)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := &listing{}
	for _, g := range s.groups {
		for _, spec := range g.sources {
			f := s.fetchers[spec.key]
			items := spec.static
			if f != nil {
				f.mu.Lock()
				items = f.items
				f.mu.Unlock()
			}
			l.lists, l.fetchers = append(l.lists, list{g.group, spec.label, items}), append(l.fetchers, f)
		}
	}
	checks := podsOf(s.checks)
	l.result = build(l.lists, s.before, takenBy(slices.Concat(others, checks)))
	if s.cfg.Offline {
		if err := l.problems(); err != nil {
			return nil, err
		}
	}
	s.noteGoneLocked(l.result)
	listed := len(l.result.targets)
	l.targets = append(l.result.targets, s.gone...) // joined here, so that Targets copies nothing
	l.result.targets = l.targets[:listed]
	s.before = l.result
	s.latest.Store(l)
	return slices.Concat(checks, l.result.pods), nil
}

// Empty reports whether the last good prober.yaml has neither targets nor checks.
func (s *Source) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups)+len(s.checks) == 0
}

// takenBy returns the names of pods.
func takenBy(others []*declared.Pod) taken {
	names := make(map[types.NamespacedName]bool, len(others))
	for _, p := range others {
		names[types.NamespacedName{Namespace: p.Pod().Namespace, Name: p.Pod().Name}] = true
	}
	return func(namespace, name string) bool {
		return names[types.NamespacedName{Namespace: namespace, Name: name}]
	}
}

// readLocked reads prober.yaml if it has changed.
func (s *Source) readLocked(all bool) error {
	if s.cfg.ConfigFile == "" {
		return nil
	}
	stamp := filestamp.Of(s.cfg.ConfigFile)
	if stamp == s.stamp && !all {
		return s.err
	}
	first := s.stamp == ""
	s.stamp = stamp
	cfg, err := config.Load(s.cfg.ConfigFile)
	switch {
	case err != nil && first:
		return err
	case err != nil:
		s.read, s.err = nil, nil // they belong to earlier contents
		return nil
	}
	if s.read, s.err = compile(s.cfg.ConfigFile, cfg, s.groups); s.err == nil && s.cfg.BindCheck != nil {
		s.added = checksOf(cfg, s.checks, s.cfg.BindCheck)
	}
	return s.err
}

// Check is the part of Generate that finds the errors of targets in prober.yaml. It queries no source.
func (s *Source) Check(ctx context.Context, all bool, others []*declared.Pod, check func(*declared.Pod) []error) error {
	if s.cfg.Offline {
		_, err := s.Generate(ctx, all, others, check)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkLocked(all, others, check)
}

// checkLocked reads prober.yaml, and checks the probes and static targets of new groups. Without an error, it
// sets s.groups.
func (s *Source) checkLocked(all bool, others []*declared.Pod, check func(*declared.Pod) []error) error {
	if err := s.readLocked(all); err != nil {
		return err
	}
	groups, checks := s.groups, s.checks
	if s.read != nil {
		groups, checks = s.read, s.added
	}
	checked := make(map[*group]bool)
	errs := []error{checkErrors(s.cfg.ConfigFile, checks, takenBy(others))}
	for _, g := range groups {
		if !s.checked[g.group] || all {
			for _, w := range g.warnings(s.cfg.ConfigFile) {
				s.cfg.Logger.Warn(pods.Doubtful, "place", w.Error())
			}
			if err := g.check(s.cfg.ConfigFile, check); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		checked[g.group] = true
	}
	if !s.cfg.Offline && (all || s.read != nil) { // offline, build reports them in the order of all lists
		errs = append(errs, static(groups, takenBy(slices.Concat(others, podsOf(checks)))))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.groups, s.checks, s.read, s.checked = groups, checks, nil, checked
	return nil
}

// openLocked opens new sources, and ends unused ones. It waits for the first lists of new sources, and with all,
// for a new list of every source, for at most firstAnswer.
func (s *Source) openLocked(ctx context.Context, all bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, firstAnswer, errNoAnswer)
	defer cancel()
	var asking sync.WaitGroup
	desired := make(map[string]bool)
	for _, g := range s.groups {
		for _, spec := range g.sources {
			if spec.key == "" || desired[spec.key] || s.cfg.Offline && spec.every > 0 {
				continue
			}
			desired[spec.key] = true
			f := s.fetchers[spec.key]
			switch {
			case f == nil:
				f = &fetcher{spec: spec, group: g.name, get: spec.open(&s.cfg), asks: make(chan chan struct{})}
				s.fetchers[spec.key] = f
				asking.Go(func() { f.refresh(ctx, &s.cfg, true) })
			case all && s.cancels[spec.key] != nil:
				asking.Go(func() { f.ask(ctx) })
			case all: // before Run
				asking.Go(func() { f.refresh(ctx, &s.cfg, true) })
			}
		}
	}
	asking.Wait()
	for key := range s.fetchers {
		if desired[key] {
			continue
		}
		if stop := s.cancels[key]; stop != nil {
			stop()
		}
		delete(s.cancels, key)
		delete(s.fetchers, key)
	}
	select {
	case s.fresh <- struct{}{}:
	default:
	}
}

var errNoAnswer = errors.New("no answer within " + firstAnswer.String() + "; it is asked again")

// Run watches prober.yaml and refreshes the sources until ctx ends. It calls request when Generate may return
// other pods. Call it once, after a call of Generate.
func (s *Source) Run(ctx context.Context, request func(cause string)) {
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.cancels)
	}()
	changed := func() { request("changed targets") }
	ticker := time.NewTicker(s.cfg.PollInterval)
	defer ticker.Stop()
	for settling := (filestamp.Settling{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.fresh:
			s.startFetchers(ctx, &running, changed)
		case now := <-ticker.C:
			if s.cfg.ConfigFile == "" {
				continue
			}
			s.mu.Lock()
			known := s.stamp
			s.mu.Unlock()
			if settling.Due(now, filestamp.Of(s.cfg.ConfigFile), known) {
				changed()
			}
		}
	}
}

// startFetchers starts a goroutine for each source without one.
func (s *Source) startFetchers(ctx context.Context, running *sync.WaitGroup, changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.fetchers {
		if s.cancels[key] == nil {
			own, cancel := context.WithCancel(ctx)
			s.cancels[key] = cancel
			running.Go(func() { f.run(own, &s.cfg, changed) })
		}
	}
}

// noteGoneLocked adds the targets that were probed and are no longer listed to s.gone.
func (s *Source) noteGoneLocked(now *result) {
	if s.before == nil {
		return
	}
	listed := make(map[types.UID]bool, len(now.targets))
	for i := range now.targets {
		t := &now.targets[i]
		listed[uidOf(t.Namespace, t.Group, t.Name)] = true
	}
	s.gone = slices.DeleteFunc(s.gone, func(t pods.Target) bool { return listed[uidOf(t.Namespace, t.Group, t.Name)] })
	groups := make(map[string]bool)
	for _, g := range s.groups {
		groups[g.name] = true
	}
	at := time.Now()
	for i := range s.before.targets {
		t := s.before.targets[i]
		if t.State != pods.TargetProbed || listed[uidOf(t.Namespace, t.Group, t.Name)] {
			continue
		}
		t.State, t.Since, t.Reason = pods.TargetGone, at, "no longer listed; it was last at "+t.Source
		if !groups[t.Group] {
			t.Reason = "the group is no longer in " + s.cfg.ConfigFile
		}
		s.gone = append(s.gone, t)
	}
	if extra := len(s.gone) - maxGone; extra > 0 {
		s.gone = slices.Delete(s.gone, 0, extra)
	}
}

// Targets returns all targets as of the last call of Generate. It does not copy the targets, so that frequent calls
// are cheap.
func (s *Source) Targets() pods.Targets {
	l := s.latest.Load()
	if l == nil {
		return pods.Targets{}
	}
	all := pods.Targets{Items: l.targets}
	type name struct{ group, source string }
	index := make(map[name]int) // a group may list a source twice
	for i, n := range l.result.counts {
		key := name{l.lists[i].group.name, l.lists[i].source}
		at, ok := index[key]
		if !ok {
			at, index[key] = len(all.Sources), len(all.Sources)
			all.Sources = append(all.Sources, pods.TargetSource{Group: key.group, Source: key.source})
		}
		t := &all.Sources[at]
		t.Probed, t.Dropped = t.Probed+n.probed, t.Dropped+n.dropped
		if f := l.fetchers[i]; f != nil {
			f.mu.Lock()
			t.Failures, t.Refreshed = t.Failures+f.failures, f.at
			if f.err != nil {
				t.Err = f.err
			}
			f.mu.Unlock()
		}
	}
	return all
}
