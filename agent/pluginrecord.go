package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// pluginRecord is one plugin, whatever stands behind it at the moment.
type pluginRecord struct {
	name string           // read-only
	swap *replace.Handler // read-only
	busy chan struct{}    // holds a token while somebody loads, replaces or drops it

	// Owned by who has locked it.
	here bool // in the registry
	seen int  // the number of the survey that it was last brought to

	// Guarded by the mu of the handlerSet, and written by who has locked it.
	inUse     admit.Plugin               // what runs, or would if a probe asked for it, without its bytes
	runtime   string                     // of inUse
	mark      string                     // of inUse; "": nothing runs
	tried     string                     // the mark of what was tried last
	err       error                      // why that does not run; nil when it does
	against   probe.Handler              // what ran when err came to be
	at        time.Time                  // when there was last a change of all this
	withdrawn bool                       // nothing runs, since its file was taken away
	running   map[probe.Handler]*running // generations that are not closed
	base      string                     // the mark of what was last found where the plugin is; another after a promotion
	place     string                     // where that was found
	shadow    *shadowRecord              // nil: nothing runs beside it, or is to
	past      metrics.PluginStats        // what those that are closed did
	idle      time.Time                  // since when no probe has used it; of who keeps house
}

// lock waits until nobody else loads, replaces or drops r, and no longer than ctx lasts.
func (r *pluginRecord) lock(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock locks r, unless somebody else has.
func (r *pluginRecord) tryLock() bool {
	select {
	case r.busy <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *pluginRecord) unlock() { <-r.busy }

// running is one generation of a plugin.
type running struct {
	handler probe.Handler // which [replace.Handler] closes
	f       admit.Plugin  // which it is, without its bytes; guarded as the record
	runtime string        // "wasm", "process" or "nagios"
	stats   func() metrics.PluginStats
}

// nowLocked returns what runs at this moment, nil for nothing, how many there have been, and
// why the newest version is not the one that runs. It goes by what probes use: what they
// can show is known here.
func (r *pluginRecord) nowLocked() (g *running, generation int, err error) {
	h, generation := r.swap.Current()
	if h != nil {
		g = r.running[h]
	}
	if r.against == h {
		err = r.err
	}
	return g, generation, err
}

// figures are the stats of g; none where they make it panic.
func (g *running) figures() (s metrics.PluginStats) {
	defer func() {
		if recover() != nil {
			s = metrics.PluginStats{}
		}
	}()
	return g.stats()
}

// runs reports whether r has been loaded. Its probes need not wait for what is loaded or
// asked for on behalf of others.
func (s *handlerSet) runs(r *pluginRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.mark != "" || r.withdrawn
}

// failed is why nothing of r has ever run, nil where something does, or did.
func (s *handlerSet) failed(r *pluginRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.mark != "" || r.withdrawn {
		return nil
	}
	return r.err
}

// register makes r known to probes.
func (s *handlerSet) register(r *pluginRecord) error {
	if r.here {
		return nil
	}
	r.here = true
	return s.Register(r.name, r.inUse.Path, r.swap)
}

func (s *handlerSet) isWanted(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted[name]
}

// settle notes how it went with what was tried last. What is wrong is told of all plugins
// together, by who looks at them.
func (s *handlerSet) settle(r *pluginRecord, mark string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.tried != mark || (r.err == nil) != (err == nil) {
		r.at = time.Now()
	}
	r.tried, r.err = mark, err
	r.against, _ = r.swap.Current()
}

// record returns the plugin called name, nil when there is none.
func (s *handlerSet) record(name string) *pluginRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plugins[name]
}

// records returns all plugins, by name.
func (s *handlerSet) records() []*pluginRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.plugins))
	slices.SortFunc(all, func(a, b *pluginRecord) int { return strings.Compare(a.name, b.name) })
	return all
}

// withdrawn returns the names of the plugins that are used and not there, sorted.
func (s *handlerSet) withdrawn() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range s.plugins {
		if g, _, _ := r.nowLocked(); r.withdrawn && g == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// newRecord returns the plugin called name, a new one if there is none.
func (s *handlerSet) newRecord(name string) *pluginRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.plugins[name]; r != nil {
		return r
	}
	r := &pluginRecord{name: name, busy: make(chan struct{}, 1), running: make(map[probe.Handler]*running), past: metrics.PluginStats{Limits: make(map[string]uint64)}}
	r.swap = replace.New(replace.Config{Name: name, Closed: func(h probe.Handler, err error) { s.ended(r, h, err) }})
	s.plugins[name] = r
	return r
}

// begins counts a generation in.
func (s *handlerSet) begins(r *pluginRecord, g *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.running[g.handler] = g
}

// ended keeps what a generation, which was closed with err, has counted.
func (s *handlerSet) ended(r *pluginRecord, h probe.Handler, err error) {
	s.mu.Lock()
	if g := r.running[h]; g != nil {
		delete(r.running, h)
		last := g.figures()
		last.Idle, last.Busy = 0, 0
		add(&r.past, last)
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("plugin could not be closed", "handler", r.name, "error", err.Error())
	}
}
