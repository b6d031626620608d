package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/endless"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// EndlessJob is the name of the job of [ServeEndless].
const EndlessJob = "endless"

// The subjects of [ServeEndless]: the ways to end a guest at its deadline.
const (
	Fuel   = "fuel"
	Checks = "checks of wazero"
)

// AllGuests is the value of the parameter guest in the run of all guests of a subject.
const AllGuests = "any"

// EndlessRequest requests attempts of guests with endless loops.
type EndlessRequest struct {
	Rounds   int
	Attempts int // number of attempts of each guest in a round
}

// ServeEndless is the job of a child. Its answer is a list of runs.
func ServeEndless(ctx context.Context, c *child.Conn) error {
	var r EndlessRequest
	if err := c.Next(&r); err != nil {
		return err
	}
	var runs []record.Run
	for n := range r.Rounds {
		for _, subject := range []string{Fuel, Checks} {
			of, err := measureEndless(ctx, subject, r.Attempts)
			if err != nil {
				return fmt.Errorf("%s: %w", subject, err)
			}
			for _, run := range of {
				run.Round = n + 1
				runs = append(runs, run)
			}
		}
	}
	return c.Reply(runs)
}

// measureEndless returns the lateness of the attempts of each guest, and of all guests.
func measureEndless(ctx context.Context, subject string, attempts int) (runs []record.Run, err error) {
	cache, err := os.MkdirTemp("", "prober-cache")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	host, err := wasm.New(wasm.Config{CacheDir: cache, Checks: subject == Checks})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	var all []time.Duration
	for _, guest := range endless.Guests(endless.Deep) {
		late, err := lateness(ctx, host, guest, attempts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", guest.Name, err)
		}
		all = append(all, late...)
		runs = append(runs, lateRun(subject, guest.Name, late))
	}
	return append(runs, lateRun(subject, AllGuests, all)), nil
}

// lateness returns how long after its deadline each attempt of a guest ended.
func lateness(ctx context.Context, host *wasm.Host, guest endless.Guest, attempts int) ([]time.Duration, error) {
	const timeout = 20 * time.Millisecond
	p, err := host.Load(ctx, plugin.Found{Module: guest.Module, Manifest: plugin.Minimal("endless")})
	if err != nil {
		return nil, err
	}
	late := make([]time.Duration, 0, attempts)
	for range attempts {
		start := time.Now()
		within, cancel := context.WithTimeout(ctx, timeout)
		out, err := p.Probe(within, probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: timeout}})
		cancel()
		late = append(late, time.Since(start)-timeout)
		if err != nil || out.Reason != probe.ReasonDeadline {
			return nil, errors.Join(fmt.Errorf("it ended otherwise: %v, %q, %w", out.Result, out.Output, err), p.Close())
		}
	}
	return late, p.Close()
}

func lateRun(subject, guest string, late []time.Duration) record.Run {
	sorted := slices.Sorted(slices.Values(late))
	return record.Run{
		Subject: subject, Params: []record.Param{{Name: "guest", Value: guest}},
		Figures: map[string]record.Number{
			"p50-ms": milliseconds(sorted[len(sorted)/2]),
			"max-ms": milliseconds(sorted[len(sorted)-1]),
		},
	}
}
