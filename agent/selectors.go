package agent

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
)

const (
	maxSelectors = 20 // in /readyz
	ofAgent      = "of this agent"
)

// selectors finds the selectors of prober.yaml that select no probe. They are warnings if all pods and targets are in
// files that the operator writes. Otherwise pods come and go, and they are only shown.
type selectors struct {
	mu       sync.Mutex
	config   *config.Agent // nil: no prober.yaml
	changed  bool          // since the last call of takeChanged
	empty    []config.Selector
	warnings bool // empty are warnings
}

// set replaces the selectors.
func (s *selectors) set(c *config.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	equal := func(x, y config.Selector) bool { return x.Equal(&y) }
	s.changed = s.changed || s.config == nil || !slices.EqualFunc(s.config.Selectors, c.Selectors, equal)
	s.config = c
}

// takeChanged reports whether the selectors have changed since the last call.
func (s *selectors) takeChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = false
	return changed
}

// checkSelectors compares all probes with the selectors, after pods were applied. It logs each warning once.
func (a *Agent) checkSelectors() {
	s := &a.selectors
	s.mu.Lock()
	c, before := s.config, s.empty
	s.changed = false
	s.mu.Unlock()
	if c == nil || !a.listsKnown() {
		return
	}
	probes := []worker.Info(nil)
	if len(c.Selectors) > 0 {
		probes = a.selectProbes("", func(*worker.Info) bool { return true })
	}
	empty := c.EmptySelectors(time.Now(), factsOf(probes))
	warnings := a.source.NodeCounts == nil && !c.HasLists()
	s.mu.Lock()
	s.empty, s.warnings = empty, warnings
	s.mu.Unlock()
	for i := range empty {
		x := &empty[i]
		if warnings && !slices.ContainsFunc(before, func(other config.Selector) bool { return x.Equal(&other) }) {
			a.log.Warn(pods.Doubtful, "place", x.Empty(a.cfg.ConfigFile, ofAgent))
		}
	}
}

// listsKnown reports whether the last try to read each list of targets succeeded.
func (a *Agent) listsKnown() bool {
	return !slices.ContainsFunc(a.targets().Sources, func(s pods.TargetSource) bool { return s.Err != nil })
}

// factsOf yields what selectors compare of probes.
func factsOf(probes []worker.Info) iter.Seq[*config.ProbeFacts] {
	return func(yield func(*config.ProbeFacts) bool) {
		for i := range probes {
			if !yield(maintenance.FactsOf(&probes[i])) {
				return
			}
		}
	}
}

// selectorChecks returns the selectors that select no probe.
func (a *Agent) selectorChecks() (checks []healthCheck) {
	s := &a.selectors
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := "+"
	if s.warnings {
		mark = "!"
	}
	for i := range s.empty[:min(len(s.empty), maxSelectors)] {
		checks = append(checks, healthCheck{"selectors", mark, s.empty[i].Empty(a.cfg.ConfigFile, ofAgent)})
	}
	if more := len(s.empty) - maxSelectors; more > 0 {
		checks = append(checks, healthCheck{"selectors", mark, fmt.Sprintf("%d more", more)})
	}
	return checks
}
