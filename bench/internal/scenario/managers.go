package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/load"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/schedule"
)

// managerColumns are the columns for managers.
var managerColumns = []Column{
	{"lost", "lost"}, {"cpu-percent", "CPU %"}, {"p99-ms", "lag p99 ms"}, {"own-p99-ms", "p99 ms by its schedule, ≤"}, {"max-ms", "max ms"}, {"run-bytes", "B a probe, running"},
}

// rateColumns are the columns for loads that not all managers keep up with.
var rateColumns = append([]Column{{"rate", "attempts/s"}}, managerColumns...)

// managers compares whole managers with handlers that do nothing.
func managers() []Scenario {
	goal := func(text, figure string, atMost float64) Goal {
		return Goal{Text: text, Figure: figure, Subject: load.Prober, AtMost: atMost}
	}
	ofGroup := func(g Goal) Goal {
		g.Text, g.Subject = load.Group+": "+g.Text, load.Group
		return g
	}
	oneCore, inTime := goal("< 1 core", "cpu-percent", 100), goal("p99 lag ≤ 15 ms", "p99-ms", 15)
	bySchedule := goal("p99 lag by its schedule ≤ 15 ms", "own-p99-ms", 15)
	resting, running := goal("≤ 1 KB a probe, resting", "rest-bytes", 1024), goal("≤ 1 KB a probe, running", "run-bytes", 1024)
	ratio := goal("CPU ≤ 1/5 of kubelet", "cpu-percent", 0.2)
	ratio.Over = load.Kubelet
	return []Scenario{
		{
			Name: "period-1s", Title: "100,000 probes at 1 s", Rounds: 3, Seconds: 8,
			Text:    "The limit: a heap of due times for each processor, without probes.",
			Columns: rateColumns, Ratio: "cpu-percent", Peer: load.Kubelet, Limit: schedule.Heap,
			Goals: []Goal{ratio, inTime, bySchedule},
			Run: func(ctx context.Context, e *Env) error {
				if err := e.managers(ctx, 100_000, 1, load.Kubelet, load.Prober); err != nil {
					return err
				}
				for round := range e.Rounds {
					if err := e.schedules(ctx, e.size(100_000), round+1, nil, schedule.Heap); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: "period-10s", Title: "100,000 probes at 10 s", Rounds: 2, Seconds: 20, Text: "The limit is a tenth of the limit of `period-1s`.",
			Columns: append(slices.Clone(managerColumns), Column{"rest-bytes", "B a probe, resting"}, Column{"run-mb", "MB"}), Ratio: "cpu-percent", Peer: load.Kubelet,
			Why: "What keeps it from the goal: the ticks, although 100 batches a second and processor take a third of single ticks (RATIONALE.md has the figures by window). " +
				"By a profile of single ticks, the handler with its measuring device takes 2.5 % of a core, prefetches of workers 1.5 %.",
			Goals: []Goal{
				goal("≤ 100 MB", "run-mb", 100), goal("≤ 4 % of a core", "cpu-percent", 4),
				resting, running, ofGroup(resting), ofGroup(running),
			},
			Run: func(ctx context.Context, e *Env) error {
				return e.managers(ctx, 100_000, 10, load.Kubelet, load.Prober, load.Group)
			},
		},
		{
			Name: "million", Title: "1,000,000 probes at 1 s", Rounds: 2, Seconds: 8,
			Text: "" +
				"The groups differ by the price of metrics. " +
				"The limit: a heap of due times for each processor, without probes. Rates of prober are attempts, two thirds of the ticks.",
			Columns: rateColumns, Ratio: "cpu-percent", Peer: schedule.Heap, Limit: schedule.Heap,
			Why: "What keeps it from the goals: memory. No tick finds its probe in a cache, and two processors wait for the same memory. By the profile, prefetches take 20 % of the time, the measuring device 16 %, the heap of due times 11 %, the history of the group 10 %, metrics 6 %, no other function more than 4 %. " +
				"Two processors are full at about 800,000 attempts a second, so a p99 of 15 ms at 667,000 needs a machine without other load.",
			Goals: []Goal{oneCore, inTime, bySchedule, ofGroup(oneCore), ofGroup(inTime), ofGroup(bySchedule)},
			Run:   million,
		},
	}
}

// scale compares prober's manager, the kubelet's and the limit for increasing numbers of probes.
func scale() Scenario {
	return Scenario{
		Name: "scale", Title: "1,000 to 1,000,000 probes at 1 s", Rounds: 1, Seconds: 5,
		Text:    "The limits: a heap of due times for each processor, and a goroutine with a ticker for each probe. The kubelet's manager and the second limit end at 100,000.",
		Columns: rateColumns, Ratio: "cpu-percent", Peer: load.Kubelet,
		Plots: []Plot{
			{Title: "CPU % by the number of probes at 1 s", Figure: "cpu-percent", X: "probes"},
			{Title: "p99 lag in ms by the number of probes at 1 s", Figure: "p99-ms", X: "probes"},
			{Title: "Bytes a probe, running, by the number of probes at 1 s", Figure: "run-bytes", X: "probes"},
		},
		Run: func(ctx context.Context, e *Env) error {
			for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
				if e.Probes > 0 && n > e.Probes {
					break
				}
				for round := range e.Rounds {
					subjects, designs := []string{load.Kubelet, load.Prober}, []string{schedule.Heap, schedule.Ticker}
					if n > 100_000 { // a million tickers do not end in minutes
						subjects, designs = subjects[1:], designs[:1]
					}
					for _, subject := range subjects {
						r := load.Request{Subject: subject, Probes: n, Period: 1}
						if err := e.load(ctx, r, round+1, param("probes", n)); err != nil {
							return err
						}
					}
					if err := e.schedules(ctx, n, round+1, param("probes", n), designs...); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

func hanging() Scenario {
	return Scenario{
		Name: "hanging", Title: "10,000 hanging probes beside 10,000 healthy ones", Rounds: 2, Seconds: 6,
		Text: "The healthy probes alone, and beside as many whose every attempt hangs until its deadline of 1 s. The period is 1 s, and a pod has one container with a liveness probe. " +
			"Lags are of the healthy probes.",
		Columns: managerColumns, Ratio: "cpu-percent", Peer: load.Kubelet,
		Goals: []Goal{{Text: "p99 lag of the healthy probes ≤ 15 ms", Figure: "p99-ms", Subject: load.Prober, Params: param("hanging", 10_000), AtMost: 15}},
		Run: func(ctx context.Context, e *Env) error {
			n := e.size(10_000)
			for round := range e.Rounds {
				for _, hung := range []int{0, n} {
					for _, subject := range inTurn(round, load.Kubelet, load.Prober) {
						r := load.Request{Subject: subject, Probes: n + hung, Period: 1, OneProbe: true, Hanging: hung}
						if err := e.load(ctx, r, round+1, param("hanging", hung)); err != nil {
							return err
						}
					}
				}
			}
			return nil
		},
	}
}

// managers runs the managers in turn.
func (e *Env) managers(ctx context.Context, probes, period int, subjects ...string) error {
	for round := range e.Rounds {
		for _, subject := range inTurn(round, subjects...) {
			r := load.Request{Subject: subject, Probes: e.size(probes), Period: period}
			if err := e.load(ctx, r, round+1, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTurn returns the subjects in the order of a round. Every second round is in reverse order.
func inTurn(round int, subjects ...string) []string {
	if round%2 == 1 {
		slices.Reverse(subjects)
	}
	return subjects
}

func million(ctx context.Context, e *Env) error {
	n := e.size(1_000_000)
	for round := range e.Rounds {
		for _, subject := range inTurn(round, load.Prober, load.Group, load.Unobserved) {
			r := load.Request{Subject: subject, Probes: n, Period: 1, Bare: true}
			if err := e.load(ctx, r, round+1, param("probes", n)); err != nil {
				return err
			}
		}
		if err := e.schedules(ctx, n, round+1, param("probes", n), schedule.Heap); err != nil {
			return err
		}
	}
	return nil
}

// load starts one manager for one measurement.
func (e *Env) load(ctx context.Context, r load.Request, round int, params []record.Param) error {
	e.Logf("%s: %d probes at %d s, round %d", r.Subject, r.Probes, r.Period, round)
	figures, err := e.loaded(ctx, r, func(p *child.Process, _ *load.Ready) (map[string]record.Number, error) {
		return e.measured(p)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.emit(r.Subject, round, params, figures, err)
	return nil
}

// startLimit is how long a manager may take to start its probes.
const startLimit = 5 * time.Minute

// loaded starts a manager, calls measure, and adds the figures of the start to the result.
func (e *Env) loaded(ctx context.Context, r load.Request, run func(*child.Process, *load.Ready) (map[string]record.Number, error)) (map[string]record.Number, error) {
	r.MaxSeconds, r.Profiles = e.Seconds, e.Profiles
	ctx, cancel := context.WithTimeout(ctx, startLimit+time.Duration(4*e.Seconds)*time.Second)
	defer cancel()
	p, err := child.Start(ctx, load.JobName)
	if err != nil {
		return nil, err
	}
	var ready load.Ready
	if err := p.Ask(r, &ready); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	figures, err := run(p, &ready)
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	maps.Copy(figures, ready.Figures)
	return figures, nil
}

// measured requests one measurement of a loaded manager.
func (e *Env) measured(p *child.Process) (figures map[string]record.Number, err error) {
	return figures, p.Ask(load.Measure{Seconds: e.Seconds}, &figures)
}

// schedules measures the designs of package schedule.
func (e *Env) schedules(ctx context.Context, n, round int, params []record.Param, designs ...string) error {
	for _, design := range designs {
		e.Logf("%s: %d ticks a second, round %d", design, n, round)
		figures := make(map[string]record.Number)
		r := schedule.Request{Design: design, Probes: n, Period: time.Second, Length: time.Duration(e.Seconds) * time.Second}
		err := child.Run(ctx, schedule.JobName, r, &figures)
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", design, context.Cause(ctx))
		}
		e.emit(design, round, params, figures, err)
	}
	return nil
}
