package replace

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

// bound is one probe: what [Handler.Prepare] returns.
type bound struct {
	of     *Handler
	config []byte // read-only
	target probe.Target
	active atomic.Pointer[binding]
	shadow atomic.Pointer[binding]             // nil: there is no shadow
	redact atomic.Pointer[func(string) string] // nil: the config has no known secrets
	secret atomic.Pointer[[]string]            // the secret fields of the config; nil as with redact
}

// binding is one probe's handler in one generation.
type binding struct {
	gen     *generation // nil: it was withdrawn, and the next handler inherits from this one
	handler probe.Handler
}

// awaiting is the handler of a probe that was bound before there was one. It is never asked.
type awaiting struct{ probe.HandlerFunc }

// CheckSecrets implements [probe.SecretChecker]: the handler that comes is asked as well.
func (awaiting) CheckSecrets([]string) error { return nil }

// refusedConfig is the handler of a probe whose config the first handler has refused.
type refusedConfig struct{ err error }

// Probe implements [probe.Handler].
func (r refusedConfig) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{}, &probe.Error{Reason: probe.ReasonInstantiate, Err: r.err}
}

var (
	_ probe.Inheritor     = (*bound)(nil)
	_ probe.Releaser      = (*bound)(nil)
	_ probe.SecretHolder  = (*bound)(nil)
	_ probe.SecretKeeper  = (*bound)(nil)
	_ probe.SecretChecker = (*bound)(nil)
	_ probe.Describer     = (*bound)(nil)
)

// errReleased is the error of an attempt after the probe was released.
var errReleased = errors.New("the probe has ended")

// Probe implements [probe.Handler].
func (b *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	b.of.noteTimeout(req.Spec.Timeout) // before acquire: the end of a generation waits as long
	for {
		active := b.active.Load()
		if active.gen == nil {
			return probe.Outcome{}, b.of.missing()
		}
		if active.gen.acquire() {
			return b.attempt(ctx, active, &req)
		}
		// The generation was replaced, and b has the next one already. A probe that was
		// released gets no other.
		if b.active.Load() == active {
			return probe.Outcome{}, errReleased
		}
	}
}

// attempt makes an attempt with active, which was acquired and is released here, and one with
// the shadow on the first attempt of a tick.
func (b *bound) attempt(ctx context.Context, active *binding, req *probe.Request) (probe.Outcome, error) {
	defer active.gen.release()
	if req.Attempt <= 1 {
		if s := b.shadow.Load(); s != nil && s.gen.acquire() {
			return b.of.compared.Probe(ctx, *req, active.handler, s.handler, s.gen.release)
		}
	}
	return active.handler.Probe(ctx, *req)
}

// Inherit implements [probe.Inheritor]: a probe that is bound anew, since a secret in its
// config has changed, keeps what it has stored.
func (b *bound) Inherit(from probe.Handler) {
	old, ok := from.(*bound)
	if !ok {
		return
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if !old.awaits() {
		probe.Inherit(b.active.Load().handler, old.active.Load().handler)
	}
}

// Secrets implements [probe.SecretHolder] by the present generation. It is called before the first
// attempt, so what a later generation alone calls secret counts when the probe is bound again.
func (b *bound) Secrets() []string { return probe.SecretsOf(b.active.Load().handler) }

// CheckSecrets implements [probe.SecretChecker]. Later generations are asked as well.
func (b *bound) CheckSecrets(fields []string) error {
	b.secret.Store(&fields)
	return probe.CheckSecrets(b.active.Load().handler, fields)
}

// Describe implements [probe.Describer] for the handler that decides.
func (b *bound) Describe(name string, req *probe.Request) string {
	return probe.Describe(b.active.Load().handler, name, req)
}

// KeepSecret implements [probe.SecretKeeper]. Errors of later generations are redacted as
// well: a refused config may be quoted in them.
func (b *bound) KeepSecret(redact func(text string) string) { b.redact.Store(&redact) }

// redactText takes what is secret by now out of a text.
func (b *bound) redactText(text string) string {
	if redact := b.redact.Load(); redact != nil {
		return (*redact)(text)
	}
	return text
}

func (b *bound) redactError(err error) error {
	if b.redact.Load() == nil {
		return err
	}
	return redact.Error(err, b.redactText)
}

// prepare prepares h with the config of b, and tells it what is secret.
func (b *bound) prepare(h probe.Handler) (probe.Handler, error) {
	prepared, err := probe.Prepare(context.Background(), h, b.config, b.target)
	if err != nil {
		return nil, err
	}
	if fields := b.secret.Load(); fields != nil {
		if err := probe.CheckSecrets(prepared, *fields); err != nil {
			probe.Release(prepared)
			return nil, err
		}
	}
	probe.KeepSecret(prepared, b.redactText)
	return prepared, nil
}

// Release implements [probe.Releaser]. Later generations are not prepared with b's config.
func (b *bound) Release() {
	b.of.mu.Lock()
	_, live := b.of.live[b]
	delete(b.of.live, b)
	active, shadow := b.active.Load(), b.shadow.Swap(nil)
	b.of.mu.Unlock()
	if live && active.gen != nil {
		probe.Release(active.handler)
	}
	if shadow != nil {
		probe.Release(shadow.handler)
	}
}
