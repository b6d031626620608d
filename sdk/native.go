//go:build !wasip1

package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

func register(Plugin) {}

// Logf writes a line to the log of the host.
func (r *Request) Logf(level Level, format string, args ...any) {
	r.trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: level.String(), Detail: fmt.Sprintf(format, args...)})
}

// Progressf sets the message of an attempt that reaches its deadline, such as what the plugin waits for. An
// outcome replaces it.
func (r *Request) Progressf(format string, args ...any) { r.told = sprintf(format, args) }

// maxProgress is the greatest length of a message that is shown after the deadline, in bytes.
const maxProgress = 1 << 10

// timedOut returns the outcome of an attempt that reached its deadline.
func (r *Request) timedOut() probe.Outcome {
	out := probe.TimedOut(r.Timeout)
	if r.told != "" && len(r.told) <= maxProgress {
		out.Output = fmt.Sprintf("%s; the deadline of %v has passed", r.told, r.Timeout)
	}
	return out
}

// NewRequest returns a request for a plugin in a native program, such as a test. config is a JSON object or
// nil. The [KV] of the request is empty.
func NewRequest(req probe.Request, config []byte) (*Request, error) {
	c, err := NewConfig(config)
	if err != nil {
		return nil, err
	}
	r := &Request{
		Kind:             req.Kind,
		Attempt:          req.Attempt,
		Period:           req.Spec.Period,
		Timeout:          req.Spec.Timeout,
		FailureThreshold: req.Spec.FailureThreshold,
		LastResult:       req.LastResult,
		Target:           req.Target,
		ContainerID:      req.ContainerID,
		Config:           c,
		trace:            req.Trace,
	}
	if req.Pod != nil {
		r.Pod = *req.Pod
	}
	if req.Container != nil {
		r.Container = *req.Container
	}
	return r, nil
}

// Native returns p as a handler in a native program, without a sandbox. It does not apply the schema of the
// manifest. Each handler returned by Prepare has its own [KV].
func Native(p Plugin) probe.Preparer { return native{plugin: p, kept: &store{}} }

type native struct {
	plugin Plugin
	config []byte
	kept   *store
}

var _ probe.Preparer = native{}

// Prepare implements [probe.Preparer].
func (n native) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	c, err := NewConfig(config)
	if err != nil {
		return nil, err
	}
	if v, ok := n.plugin.(ConfigValidator); ok {
		if err := v.ValidateConfig(c); err != nil {
			return nil, err
		}
	}
	return native{n.plugin, config, &store{}}, c.Err()
}

// Probe implements [probe.Handler].
func (n native) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	r, err := NewRequest(req, n.config)
	if err != nil {
		return probe.Outcome{}, err
	}
	host := hostOf(ctx)
	host.Target, host.open = req.Target, &connections{}
	if r.Features = host.Features; r.Features == nil {
		r.Features = []string{"net", "http", "dns", "kv", "icmp", "files"}
	}
	defer host.open.end()
	defer context.AfterFunc(ctx, host.open.end)()
	r.kv.draft.begin(n.kept, host.KV)
	out, err := n.plugin.Probe(WithHost(ctx, host), r)
	switch ended := endOf(ctx); {
	case ended == context.DeadlineExceeded:
		return r.timedOut(), nil
	case ended != nil:
		return probe.Outcome{}, ended
	case err == nil:
		err = r.Config.Err()
	}
	if err != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: err}
	}
	r.kv.draft.commit()
	return out, nil
}

// endOf returns the error of ctx, or DeadlineExceeded after its deadline: a dial may end before the timer
// of ctx fires.
func endOf(ctx context.Context) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ended == nil && ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ended
}
