package plugins

import (
	"context"
	"fmt"
	"strings"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/probe"
)

// load loads a plugin with its runtime.
func (s *Set) load(ctx context.Context, p admit.Plugin) (live.Loaded, error) {
	switch {
	case s.cfg.Offline && (p.Manifest.Runtime == plugin.Process || p.Manifest.Runtime == plugin.Nagios):
		return s.loadOffline(p)
	case p.Manifest.Runtime == plugin.Process:
		return loaded(process.Load(ctx, process.Config{Logger: s.cfg.Log, Version: s.cfg.Version, Env: []string{s.cfg.Mark}}, p.Found))
	case p.Manifest.Runtime == plugin.Nagios:
		return loaded(process.LoadCheck(process.Config{Logger: s.cfg.Log, Env: []string{s.cfg.Mark}}, p.Found))
	default:
		host, err := s.wasmHost()
		if err != nil {
			return live.Loaded{}, err
		}
		h, err := host.Load(ctx, p.Found)
		if err != nil {
			return live.Loaded{}, err
		}
		return live.Loaded{Handler: h, Stats: func() live.Stats { return wasmStats(h.Stats()) }}, nil
	}
}

// loaded returns a plugin whose handler runs programs.
func loaded[H interface {
	probe.Handler
	Stats() process.Stats
}](h H, err error) (live.Loaded, error) {
	if err != nil {
		return live.Loaded{}, err
	}
	return live.Loaded{Handler: h, Stats: func() live.Stats { return processStats(h.Stats()) }}, nil
}

// wasmHost returns the host of WebAssembly plugins. The first call creates it.
func (s *Set) wasmHost() (*wasm.Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return s.host, nil
	}
	host, err := wasm.New(wasm.Config{
		Logger: s.cfg.Log, Version: s.cfg.Version, TotalMemory: s.total, Compat: s.cfg.Compat, Listeners: s.cfg.Listeners,
		Compiler: s.cfg.Compiler, Credentials: s.credentials.TLS, ShowOutput: s.cfg.ShowOutput,
	})
	if err == nil {
		s.host = host
	}
	return host, err
}

// fingerprint returns a string that changes with the command of a check plugin; "" for other plugins.
func fingerprint(p admit.Plugin) string {
	if p.Manifest.Runtime != plugin.Nagios {
		return ""
	}
	path, digest, inPlace, err := process.CommandOf(p.Found)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, path, digest)
	if inPlace {
		stampFile(&b, path)
	}
	return b.String()
}

func wasmStats(s wasm.Stats) live.Stats {
	return live.Stats{Idle: s.Idle, Busy: s.Busy, Denied: s.Denied, Limits: s.Limits}
}

// processStats converts stats. The process of a plugin counts as its one instance.
func processStats(stats process.Stats) live.Stats {
	s := live.Stats{Limits: stats.Limits}
	switch {
	case stats.Running && stats.Busy > 0:
		s.Busy = 1
	case stats.Running:
		s.Idle = 1
	}
	return s
}

// Plugins implements [metrics.PluginHost]. Counts include all generations.
func (s *Set) Plugins() map[string]metrics.PluginStats {
	all := make(map[string]metrics.PluginStats)
	for _, p := range s.live.Statuses() {
		total := metrics.PluginStats{
			Refused: p.Err != nil, Idle: p.Stats.Idle, Busy: p.Stats.Busy, Denied: p.Stats.Denied,
			Limits: make(map[string]uint64), Shadow: comparedTicks(p.Compared),
		}
		for limit, n := range p.Stats.Limits {
			total.Limits[string(limit)] = n
		}
		if p.Compared.Compared()+p.Compared.Skipped == 0 {
			total.Shadow = nil
		}
		if p.State == live.Running {
			total.Loaded = metrics.PluginInfo{
				Version: p.Plugin.Manifest.Version, Digest: p.Plugin.Digest, Runtime: runtimeOf(p.Plugin), Trust: string(p.Plugin.Verdict.State),
			}
		}
		all[p.Name] = total
	}
	return all
}

// Memory implements [metrics.PluginHost].
func (s *Set) Memory() uint64 {
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if host == nil {
		return 0
	}
	return host.Memory()
}
