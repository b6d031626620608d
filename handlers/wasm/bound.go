package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// bound is a plugin together with the config of one probe.
type bound struct {
	plugin *Handler
	config []byte // defaults filled in
	url    string // the URL in config, see [attempt.URLOf]
	store  *attempt.Store
	class  atomic.Int32 // a [sched.Class]

	unanswered, told atomic.Bool // see [guest.Call]
}

var (
	_ probe.SecretHolder = (*bound)(nil)
	_ probe.Describer    = (*bound)(nil)
)

// Secrets implements [probe.SecretHolder].
func (b *bound) Secrets() []string { return b.plugin.guest.Manifest.Config.SecretsOf(b.config) }

// Describe implements [probe.Describer].
func (b *bound) Describe(name string, req *probe.Request) string {
	return attempt.Describe(name, b.url, req)
}

// Probe implements [probe.Handler].
func (b *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	out, err := b.attempt(ctx, &req)
	if err != nil {
		if failure, ok := attempt.FailureOf(b.plugin.guest.Manifest, &req, err); ok {
			return failure, nil
		}
	}
	return out, err
}

// attempt carries out one attempt.
func (b *bound) attempt(ctx context.Context, req *probe.Request) (probe.Outcome, error) {
	start := b.plugin.host.cfg.Clock.Now()
	if err := ctx.Err(); err != nil {
		return b.ended(err, req, start)
	}
	c := newCall(ctx, b, req, b.store, sched.Class(b.class.Load()), start)
	in, err := b.begin(c)
	if err != nil {
		return probe.Outcome{}, b.named(err)
	}
	out, err := b.carryOut(c, in, start)
	c.recycle()
	return out, err
}

// begin acquires a slot and an instance for a call. The caller releases them with end.
func (b *bound) begin(c *call) (in *instance, err error) {
	if !c.Acquire() {
		return nil, ErrNoInstance
	}
	defer func() {
		if in == nil {
			c.Release()
		}
	}()
	return b.plugin.acquire(c)
}

// end closes the connections of a call whose guest returned at now, and releases its slot and
// instance.
func (b *bound) end(c *call, in *instance, normal bool, now time.Time) {
	defer b.plugin.release(c, in, normal, now)
	c.Release()
	c.Finish()
}

// carryOut calls the guest, and ends the call.
func (b *bound) carryOut(c *call, in *instance, start time.Time) (out probe.Outcome, err error) {
	normal, now := false, start
	defer func() { b.end(c, in, normal, now) }()
	code, err := in.run(c, in.probe)
	now = b.plugin.host.cfg.Clock.Now()
	ended := c.EndedAt(now)
	b.class.Store(int32(c.class.Next(c.Class(ended, now))))
	size := uint64(in.module.Memory().Size())
	b.plugin.size.Store(size)
	if err == nil && ended == nil {
		if out, err = c.Outcome(code, in.world); err == nil {
			c.Commit()
		}
	}
	c.TraceGuest(now, ended != nil || err != nil || out.Result != probe.Success, size)
	normal = b.plugin.reset && c.Usable(err) || err == nil && ended == nil
	if ended != nil {
		c.TraceEnd(ended)
		return b.cutOff(c, ended, start)
	}
	return out, b.named(err)
}

// cutOff returns the outcome of an attempt whose context ended before its guest returned.
func (b *bound) cutOff(c *call, err error, start time.Time) (probe.Outcome, error) {
	if err == context.DeadlineExceeded {
		switch trouble := c.HostTrouble(); { // a deadline that says nothing about the target
		case c.Starved(start):
			err = ErrNoInstance
		case trouble != nil:
			err = trouble
		}
	}
	out, err := b.ended(err, c.Request(), start)
	c.Explain(&out, b.plugin.host.since(start))
	return out, err
}

// ended returns the outcome of an attempt whose context ended: a Failure at the deadline, an
// error otherwise.
func (b *bound) ended(err error, req *probe.Request, start time.Time) (probe.Outcome, error) {
	if err != context.DeadlineExceeded {
		return probe.Outcome{}, b.named(err)
	}
	return attempt.TimedOut(req, b.plugin.host.since(start)), nil
}

// whenFree calls do until it gets an instance or ctx ends.
func whenFree(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, ErrNoInstance) || ctx.Err() != nil {
			return err
		}
		guest.SystemClock{}.Wait(ctx, nil, sched.Patience)
	}
}

// validate calls the guest's validate_config.
func (b *bound) validate(ctx context.Context, target probe.Target) error {
	c := newCall(ctx, b, &probe.Request{Target: target}, nil, sched.Prompt, b.plugin.host.cfg.Clock.Now())
	in, err := b.begin(c)
	if err != nil {
		return err
	}
	normal := false
	defer func() { b.end(c, in, normal, b.plugin.host.cfg.Clock.Now()) }()
	code, err := in.run(c, in.module.ExportedFunction(abi.ExportValidateConfig))
	normal = err == nil && ctx.Err() == nil
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", abi.ExportValidateConfig, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %w", abi.ExportValidateConfig, err)
	case code != 0:
		return errors.New(cmp.Or(c.Message(), "the plugin does not accept this config"))
	}
	return nil
}

// named adds the name of the plugin to an error.
func (b *bound) named(err error) error { return attempt.Named(b.plugin.guest.Manifest.Name, err) }
