package replace

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

// bound is one probe. [Handler.Prepare] returns it.
type bound struct {
	owner  *Handler
	config []byte // read-only
	target probe.Target
	active atomic.Pointer[binding]
	shadow atomic.Pointer[binding]             // nil if there is no shadow
	redact atomic.Pointer[func(string) string] // nil if the config has no known secrets
	secret atomic.Pointer[[]string]            // secret fields of the config; nil if none are known
}

// binding is the handler of one probe in one generation.
type binding struct {
	gen     *generation // nil after a withdrawal; the next handler inherits from this one
	handler probe.Handler
}

// awaiting is a placeholder for the handler of a probe that was bound before there was a generation. It
// is never called.
type awaiting struct{ probe.HandlerFunc }

// CheckSecrets implements [probe.SecretChecker]. The later handler is asked too.
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
	b.owner.noteTimeout(req.Spec.Timeout) // before acquire, because the end of a generation waits that long
	for {
		active := b.active.Load()
		if active.gen == nil {
			return probe.Outcome{}, b.owner.missing()
		}
		if active.gen.acquire() {
			return b.attempt(ctx, active, &req)
		}
		// The generation was replaced, and b has the next one already. A released probe gets no
		// further generation.
		if b.active.Load() == active {
			return probe.Outcome{}, errReleased
		}
	}
}

// attempt makes an attempt with active, and releases the generation that the caller acquired. On the
// first attempt of a tick, it also makes one with the shadow.
func (b *bound) attempt(ctx context.Context, active *binding, req *probe.Request) (probe.Outcome, error) {
	defer active.gen.release()
	if req.Attempt <= 1 {
		if s := b.shadow.Load(); s != nil && s.gen.acquire() {
			return b.owner.compared.Probe(ctx, *req, active.handler, s.handler, s.gen.release)
		}
	}
	return active.handler.Probe(ctx, *req)
}

// Inherit implements [probe.Inheritor]. A probe that is bound again, because a secret in its config has
// changed, keeps its store.
func (b *bound) Inherit(from probe.Handler) {
	old, ok := from.(*bound)
	if !ok {
		return
	}
	b.owner.mu.Lock()
	defer b.owner.mu.Unlock()
	if !old.awaits() {
		probe.Inherit(b.active.Load().handler, old.active.Load().handler)
	}
}

// Secrets implements [probe.SecretHolder] for the current generation. It is called before the first
// attempt. If a later generation marks more values as secret, they take effect when the probe is bound
// again.
func (b *bound) Secrets() []string { return probe.SecretsOf(b.active.Load().handler) }

// CheckSecrets implements [probe.SecretChecker]. Later generations are asked too.
func (b *bound) CheckSecrets(fields []string) error {
	b.secret.Store(&fields)
	return probe.CheckSecrets(b.active.Load().handler, fields)
}

// Describe implements [probe.Describer] for the handler that decides.
func (b *bound) Describe(name string, req *probe.Request) string {
	return probe.Describe(b.active.Load().handler, name, req)
}

// KeepSecret implements [probe.SecretKeeper]. Errors of later generations are redacted too, because they
// may quote a refused config.
func (b *bound) KeepSecret(redact func(text string) string) { b.redact.Store(&redact) }

// redactText redacts the secrets that are known so far.
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

// prepare prepares h with the config of b, and passes the secret fields to it.
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
	b.owner.mu.Lock()
	_, live := b.owner.live[b]
	delete(b.owner.live, b)
	active, shadow := b.active.Load(), b.shadow.Swap(nil)
	b.owner.mu.Unlock()
	if live && active.gen != nil {
		probe.Release(active.handler)
	}
	if shadow != nil {
		probe.Release(shadow.handler)
	}
}
