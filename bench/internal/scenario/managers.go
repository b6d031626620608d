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

const (
	bothManagers = "Each manager runs in a process of its own, and they alternate. A pod has two containers with probes of all three kinds; its startup probes make no attempts, since the containers have started. " +
		"The commands of the exec probes do nothing. Metrics are on, the history is off. "
	groupText = "The group is core/group, without Kubernetes: a task for each container, with a handler that does nothing at all. "
	lagText   = "Lag is from the due time of an attempt to its begin; an attempt that has not begun 2 s after the end of the measurement is lost, and later than all others. " +
		"The calls show when a probe is due: its most punctual one counts as punctual. The column by its schedule has no such assumption: it is the bucket of prober_schedule_lag_seconds, which prober itself counts. "
)

var managerColumns = []Column{
	{"rate", "attempts/s"}, {"lost", "lost"}, {"cpu-percent", "CPU %"}, {"cpu-us", "CPU µs an attempt"},
	{"p50-ms", "lag p50 ms"}, {"p99-ms", "p99 ms"}, {"own-p99-ms", "p99 ms by its schedule, ≤"}, {"max-ms", "max ms"},
	{"rest-bytes", "B a probe, resting"}, {"run-bytes", "running"}, {"collections", "GC cycles"},
	{"pod-bytes", "pod objects"}, {"allocs", "allocations an attempt"},
}

// loadColumns are the columns for managers, without the cost of their objects alone.
var loadColumns = managerColumns[:11:11]

// managers compares whole managers with handlers that do nothing.
func managers() []Scenario {
	goal := func(text, figure string, atMost float64) Goal {
		return Goal{Text: text, Figure: figure, Subject: load.Prober, AtMost: atMost}
	}
	ofGroup := func(g Goal) Goal {
		g.Text, g.Subject = load.Group+": "+g.Text, load.Group
		return g
	}
	oneCore, inTime := goal("< 1 core", "cpu-percent", 100), goal("p99 lag ≤ 15 ms"+ofWindow, "p99-ms", 15)
	bySchedule := goal("p99 lag by its own schedule ≤ 15 ms"+ofWindow, "own-p99-ms", 15)
	resting, running := goal("≤ 1 KB a probe, resting", "rest-bytes", 1024), goal("≤ 1 KB a probe, running", "run-bytes", 1024)
	ratio := goal("CPU ≤ 1/5 of the kubelet's manager", "cpu-percent", 0.2)
	ratio.Over = load.Kubelet
	return []Scenario{
		{
			Name: "period-1s", Title: "100,000 probes at 1 s", Rounds: 3, Seconds: 8,
			Text:    bothManagers + "The limit: a heap of due times for each processor, without any probe behind it. " + lagText,
			Columns: managerColumns, Ratio: "cpu-percent", Peer: load.Kubelet, Limit: schedule.Heap,
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
			Name: "period-10s", Title: "100,000 probes at 10 s", Rounds: 2, Seconds: 20, Text: bothManagers + groupText + "The limit is a tenth of that of 100,000 probes at 1 s. " + lagText,
			Columns: append(managerColumns[:len(managerColumns):len(managerColumns)], Column{"run-mb", "MB, running"}), Ratio: "cpu-percent", Peer: load.Kubelet,
			Why: "What keeps it from the goal: the ticks. 100 batches a second and processor take a third of what a tick at a time took (RATIONALE.md has the figures by window). " +
				"By the profile before that, the handler and the measuring device in it took 2.5 % of a core, and the memory of workers that is fetched ahead 1.5 %.",
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
			Text: "A handler that does nothing at all, without the kubelet, which falls behind long before. A pod has two containers with probes of all three kinds. " +
				"Metrics are on, but for the group without metrics: the difference is their price. " + groupText +
				"The limit: a heap of due times for each processor, without any probe behind it. The rates of prober are those of attempts, two thirds of the ticks. " + lagText,
			Columns: loadColumns, Ratio: "cpu-percent", Peer: schedule.Heap, Limit: schedule.Heap,
			Why: "What keeps it from the goals: memory. No tick finds anything of its probe in a cache, and ticks of two processors wait for the same memory. By the profile, 20 % of the time are prefetches, which wait while too many are under way, 16 % the measuring device (a counter and a time for each call), 11 % the heap of due times, 10 % the history of the group, 6 % the metrics, and no other function has more than 4 %. " +
				"Two processors are fully taken at about 800,000 attempts a second, so a p99 of 15 ms at 667,000 needs a machine that nothing else uses.",
			Goals: []Goal{oneCore, inTime, bySchedule, ofGroup(oneCore), ofGroup(inTime), ofGroup(bySchedule)},
			Run:   million,
		},
	}
}

// scale compares prober's manager, the kubelet's and the limit for increasing numbers of probes.
func scale() Scenario {
	return Scenario{
		Name: "scale", Title: "1,000 to 1,000,000 probes at 1 s", Rounds: 1, Seconds: 5,
		Text:    bothManagers + "The kubelet's manager ends at 100,000, and so does the second limit. The limits: a heap of due times for each processor, and a goroutine with a ticker for each probe. " + lagText,
		Columns: loadColumns, Ratio: "cpu-percent", Peer: load.Kubelet,
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
		Text: "The healthy probes alone, and beside as many probes whose every attempt hangs until its deadline of 1 s. The period is 1 s, a pod has one container with one liveness probe. " +
			"The lags are those of the healthy probes. " + lagText,
		Columns: loadColumns, Ratio: "cpu-percent", Peer: load.Kubelet,
		Goals: []Goal{{Text: "p99 lag of the healthy probes ≤ 15 ms" + ofWindow, Figure: "p99-ms", Subject: load.Prober, Params: param("hanging", 10_000), AtMost: 15}},
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
