// Package oneshot carries out one probe from the command line and prints its verdict, for
// `prober probe` and `prober plugin run`. Read oneshot.go first; verdict.go has the formats,
// and explain.go the lines of --explain.
package oneshot

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/probe"
)

// Probe is one probe that is carried out once.
type Probe struct {
	Env     *command.Env
	Handler string // its name
	Config  any    // config of the handler, encoded as JSON
	Target  probe.Target
	Secrets declared.Secrets // that Config refers to
	// Wrap, if not nil, returns the handler to call instead of h. h has been prepared with config.
	Wrap func(h probe.Handler, config []byte) probe.Handler
	// Stopped reports whether a signal ended the probe. It is set by Run.
	Stopped bool

	timeout   time.Duration
	output    string
	noHeaders bool
	explain   bool
}

// Flags adds the flags that all one-shot probes have.
func (p *Probe) Flags(c *cobra.Command) *cobra.Command {
	c.Long = c.Short + ".\n\nExit code 0 Success, 1 Warning, 2 Failure, 3 Unknown, 64 wrong usage."
	c.Flags().DurationVar(&p.timeout, "timeout", time.Second, "timeout of each attempt")
	c.Flags().BoolVar(&p.explain, "explain", false, "show on stderr the steps of each attempt")
	c.Flags().BoolVar(&p.noHeaders, "no-headers", false, "omit the headers of the table")
	command.OutputFlag(c, &p.output, command.Table, command.JSON, command.YAML, command.Nagios)
	return c
}

// Run carries out the probe with a handler of registry and prints the verdict. The error is
// a [command.Exit] with the exit code of the verdict.
func (p *Probe) Run(ctx context.Context, registry *handlers.Registry) error {
	if p.timeout <= 0 {
		return command.Usage("", "--timeout %s: must be above 0", p.timeout)
	}
	config, err := json.Marshal(p.Config)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	handler, err := registry.Prepare(p.Handler, config, p.Target)
	if err != nil {
		return command.Usage("", "%w", p.Secrets.Error(err))
	}
	if p.Wrap != nil {
		handler = p.Wrap(handler, config)
	}
	handler = p.Secrets.Handler(handler)
	ctx, stop := p.Env.Interruptible(ctx)
	defer stop()
	v, err := p.attempts(ctx, handler)
	if err := v.print(p.Env, p.output, !p.noHeaders); err != nil {
		return command.Failed(err)
	}
	return &command.Exit{Code: v.Result.ExitCode(), Err: err}
}

// attempts calls handler like a worker's tick: it retries after an error, with a new timeout for each
// attempt.
func (p *Probe) attempts(ctx context.Context, handler probe.Handler) (*verdict, error) {
	req := Request(p.Target, p.timeout)
	req.Debug = p.explain
	var (
		outcome probe.Outcome
		err     error
		start   = time.Now()
		e       = explanation{on: p.explain, out: p.Env.Stderr}
	)
	for req.Attempt < probe.MaxAttempts {
		req.Attempt++
		req.Trace = e.begin(req.Attempt)
		outcome, err = Attempt(ctx, handler, req)
		e.end(outcome, err)
		if err == nil || ctx.Err() != nil || errors.Is(err, probe.ErrNoSlot) {
			break
		}
	}
	if ctx.Err() == nil {
		e.verdict(outcome, err)
	}
	v := &verdict{
		Result: outcome.Result, Output: outcome.Output, Metrics: outcome.Metrics, Attempts: req.Attempt,
		DurationSeconds: time.Since(start).Seconds(), handler: p.Handler,
	}
	if outcome.Details != "" {
		v.Details = json.RawMessage(outcome.Details)
	}
	if p.Stopped = ctx.Err() != nil; p.Stopped {
		v.Result, err = probe.Unknown, context.Cause(ctx)
	}
	if err != nil {
		v.Result, v.Error = probe.Unknown, err.Error()
	}
	return v, err
}

// Request returns the request of a probe that has no pod.
func Request(target probe.Target, timeout time.Duration) probe.Request {
	return probe.Request{
		Kind: probe.Readiness, Target: target, PodIP: target.Host,
		Spec: probe.Spec{Timeout: timeout, Period: 10 * time.Second, SuccessThreshold: 1, FailureThreshold: 1},
		Pod:  &probe.Pod{}, Container: &probe.Container{},
	}
}

// Attempt makes one attempt under its own deadline.
func Attempt(ctx context.Context, handler probe.Handler, req probe.Request) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, req.Spec.Timeout)
	defer cancel()
	return worker.Attempt(ctx, handler, req)
}
