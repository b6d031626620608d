package agent

import (
	"maps"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
)

func statsOf(h *wasm.Handler) metrics.PluginStats {
	stats := h.Stats()
	return metrics.PluginStats{Idle: stats.Idle, Busy: stats.Busy, Denied: stats.Denied, Limits: limitHits(stats.Limits)}
}

// processStats counts the one process of a plugin as an instance.
func processStats(stats process.Stats) metrics.PluginStats {
	s := metrics.PluginStats{Limits: limitHits(stats.Limits)}
	switch {
	case stats.Running && stats.Busy > 0:
		s.Busy = 1
	case stats.Running:
		s.Idle = 1
	}
	return s
}

func limitHits(hits map[plugin.LimitName]uint64) map[string]uint64 {
	named := make(map[string]uint64, len(hits))
	for limit, n := range hits {
		named[string(limit)] = n
	}
	return named
}

// add adds what another generation takes and did. to.Limits is not nil.
func add(to *metrics.PluginStats, s metrics.PluginStats) {
	to.Idle += s.Idle
	to.Busy += s.Busy
	to.Denied += s.Denied
	for limit, n := range s.Limits {
		to.Limits[limit] += n
	}
}

// Plugins implements [metrics.PluginHost]. What is counted is that of all generations.
func (s *handlerSet) Plugins() map[string]metrics.PluginStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]metrics.PluginStats, len(s.plugins))
	for name, r := range s.plugins {
		total := r.past
		total.Limits = maps.Clone(r.past.Limits)
		for _, g := range r.running {
			add(&total, g.figures())
		}
		total.Shadow = shadowTotals(r.swap.Shadowing())
		now, _, err := r.nowLocked()
		if total.Refused = err != nil; now != nil {
			total.Loaded = metrics.PluginInfo{
				Version: now.f.Manifest.Version, Digest: now.f.Digest, Runtime: now.runtime, Trust: string(now.f.Verdict.State),
			}
		}
		all[name] = total
	}
	return all
}

// shadowTotals names what was counted; nil when there was nothing.
func shadowTotals(s shadow.Counts) map[string]uint64 {
	if s == (shadow.Counts{}) {
		return nil
	}
	return map[string]uint64{"agree": s.Agree, "disagree": s.Disagree, "error": s.Errors, "skipped": s.Skipped}
}

// Memory implements [metrics.PluginHost].
func (s *handlerSet) Memory() uint64 {
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if host == nil {
		return 0
	}
	return host.Memory()
}
