//go:build !wasip1

package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

func register(Plugin) {}

// Logf hands a line to the host's log.
func (r *Request) Logf(level Level, format string, args ...any) {
	r.trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: level.String(), Detail: fmt.Sprintf(format, args...)})
}

// NewRequest returns what a plugin is asked in a native program: its tests, say.
// config is a JSON object and may be nil. The request begins with an empty [KV].
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

// Native returns p as a handler of a native program: the plugin without its
// sandbox. The manifest's schema is not applied. What the plugin keeps in its [KV] is
// kept for each Prepare.
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
	defer host.open.end()
	defer context.AfterFunc(ctx, host.open.end)()
	r.kv.draft.begin(n.kept, host.KV)
	out, err := n.plugin.Probe(WithHost(ctx, host), r)
	switch ended := endOf(ctx); {
	case ended == context.DeadlineExceeded:
		return probe.TimedOut(req.Spec.Timeout), nil
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

// endOf is the error of ctx, which is asked once: the deadline may come at any moment. What
// waits for it too, as a dial does, may be awake before the timer of ctx.
func endOf(ctx context.Context) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ended == nil && ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ended
}
