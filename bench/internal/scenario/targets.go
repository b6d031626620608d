package scenario

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/load"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
)

const proberRun = "prober run"

// targets measures a whole process that probes 1,000 HTTP servers.
func targets() Scenario {
	goals := []Goal{}
	for _, subject := range []string{load.Prober, proberRun} {
		goals = append(goals,
			Goal{Text: subject + ": CPU ≤ 0.45 × kubelet", Figure: "cpu-us", Subject: subject, Over: load.Kubelet, AtMost: 0.45},
			Goal{Text: subject + ": p99 jitter ≤ 15 ms", Figure: "p99-ms", Subject: subject, AtMost: 15},
		)
	}
	return Scenario{
		Name: "targets", Title: "1,000 HTTP targets at 1 s, end to end", Rounds: 3, Seconds: 8,
		Text: "A manager embedded in a small program, and `prober run` with external targets. CPU and memory are of the whole process. " +
			"Jitter is how late requests arrive at the server, by the schedule that they show; a request that does not come is later than all others. " +
			"\"Above idle\" is without the idle process. " +
			"The limit is HTTP's at c = 1.",
		Why:     "What keeps it from the goal: the program of 49 MB, of which 13 MB are in use (docs/size.md), and the heap's room for garbage.",
		Columns: []Column{{"lost", "lost"}, {"cpu-us", "CPU µs a probe"}, {"p50-ms", "jitter p50 ms"}, {"p99-ms", "p99 ms"}, {"max-ms", "max ms"}, {"rss-mb", "MB in all"}, {"run-mb", "MB above idle"}},
		Ratio:   "cpu-us", Peer: load.Kubelet,
		Goals: append(goals, Goal{Text: "prober: ≤ 20 MB above idle", Figure: "run-mb", Subject: load.Prober, AtMost: 20}, Goal{Text: "prober run: ≤ 30 MB in all", Figure: "rss-mb", Subject: proberRun, AtMost: 30}),
		Run: func(ctx context.Context, e *Env) error {
			subjects := append([]string{load.Kubelet, load.Prober, proberRun}, slices.Sorted(maps.Keys(e.Peers))...)
			return e.targets(ctx, e.probeTargets, subjects...)
		},
	}
}

// targetsOf measures a subject with n probes of an HTTP server.
type targetsOf func(ctx context.Context, subject string, server *target.Server, n int) (map[string]record.Number, error)

// targets runs the subjects in turn with 1,000 HTTP targets.
func (e *Env) targets(ctx context.Context, measure targetsOf, subjects ...string) error {
	server, err := e.target(ctx)
	if err != nil {
		return err
	}
	n := e.size(1000)
	for round := range e.Rounds {
		for _, subject := range inTurn(round, subjects...) {
			e.Logf("%s: %d HTTP targets, round %d", subject, n, round+1)
			figures, err := measure(ctx, subject, server, n)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			e.emit(subject, round+1, nil, figures, err)
		}
	}
	return nil
}

// bulk measures a manager to which many probes are added at once, some time after its start.
func bulk() Scenario {
	return Scenario{
		Name: "bulk", Title: "1,000 HTTP targets at 1 s that are added at once", Rounds: 2, Seconds: 6,
		Text:    "The embedded managers as above, but older than a period when the probes are added. The kubelet spreads first ticks only before that age.",
		Columns: []Column{{"lost", "lost"}, {"cpu-us", "CPU µs a probe"}, {"p50-ms", "jitter p50 ms"}, {"p99-ms", "p99 ms"}, {"max-ms", "max ms"}},
		Ratio:   "p99-ms", Peer: load.Kubelet,
		Goals: []Goal{{Text: "p99 jitter ≤ 15 ms", Figure: "p99-ms", Subject: load.Prober, AtMost: 15}},
		Run: func(ctx context.Context, e *Env) error {
			return e.targets(ctx, func(ctx context.Context, subject string, server *target.Server, n int) (map[string]record.Number, error) {
				return e.embedded(ctx, load.Request{Subject: subject, Probes: n, Late: true}, server)
			}, load.Kubelet, load.Prober)
		},
	}
}

// embedded measures a manager that probes HTTP targets.
func (e *Env) embedded(ctx context.Context, r load.Request, server *target.Server) (map[string]record.Number, error) {
	r.Period, r.OneProbe, r.Port = 1, true, server.HTTP
	return e.loaded(ctx, r, func(p *child.Process, ready *load.Ready) (map[string]record.Number, error) {
		figures, err := e.watch(ctx, p.Pid(), server, r.Probes)
		if err == nil {
			figures["run-mb"] = figures["rss-mb"] - ready.Figures["idle-mb"]
		}
		return figures, err
	})
}

func (e *Env) probeTargets(ctx context.Context, subject string, server *target.Server, n int) (map[string]record.Number, error) {
	if _, ok := e.Peers[subject]; ok {
		return e.probeByPeer(ctx, subject, server, n)
	}
	if subject != proberRun {
		return e.embedded(ctx, load.Request{Subject: subject, Probes: n}, server)
	}
	a, err := e.startAgent(ctx, externalPods(server, n, 1, 1), "")
	if err != nil {
		return nil, err
	}
	err = e.started(ctx, server, n)
	figures := make(map[string]record.Number)
	if err == nil {
		got, watchErr := e.watch(ctx, a.cmd.Process.Pid, server, n)
		maps.Copy(figures, got)
		err = watchErr
	}
	return figures, errors.Join(err, a.close())
}

// started waits until nearly all of n targets have a request each second, at most for half a minute. A slower
// process is measured nevertheless.
func (e *Env) started(ctx context.Context, server *target.Server, n int) error {
	for range 10 {
		if err := server.Watch(n, time.Second, 5); err != nil {
			return err
		}
		if err := pause(ctx, 3*time.Second); err != nil {
			return err
		}
		lags, err := server.Lags()
		if err != nil {
			return err
		}
		if lags.Lost <= lags.Ticks/100 {
			return nil
		}
	}
	return nil
}

// watch measures a process from outside.
func (e *Env) watch(ctx context.Context, pid int, server *target.Server, n int) (map[string]record.Number, error) {
	if err := server.Watch(n, time.Second, e.Seconds+5); err != nil {
		return nil, err
	}
	before, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := pause(ctx, time.Duration(e.Seconds)*time.Second); err != nil {
		return nil, err
	}
	after, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	wall := time.Since(start).Seconds()
	resident, err := measure.Resident(pid)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Second); err != nil { // time for the requests of the last period
		return nil, err
	}
	lags, err := server.Lags()
	if err != nil {
		return nil, err
	}
	ran := float64(lags.Ticks-lags.Lost) / wall
	return map[string]record.Number{
		"rate": record.Number(ran), "lost": record.Number(lags.Lost),
		"cpu-us": record.Number((after - before).Seconds() * 1e6 / wall / max(ran, 1)), "rss-mb": record.Number(float64(resident) / (1 << 20)),
		"p50-ms": lags.P50, "p99-ms": lags.P99, "max-ms": lags.Max,
	}, nil
}
