package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// Prepare binds the plugin called name to a probe. It loads the plugin for the first probe. It
// returns early if ctx or the context of [New] ends; a handler that the plugin returns later is
// released.
func (m *Manager) Prepare(ctx context.Context, name string, config []byte, target probe.Target) (probe.Handler, error) {
	if err := m.silence(name); err != nil {
		return nil, err
	}
	return m.await(ctx, func() (probe.Handler, error) { return m.prepare(name, config, target) })
}

// await returns the result of prepare, or the cause of ctx if that ends first.
func (m *Manager) await(ctx context.Context, prepare func() (probe.Handler, error)) (probe.Handler, error) {
	type result struct {
		handler probe.Handler
		err     error
	}
	results := make(chan result) // unbuffered: a handler that is not received is released
	m.preparing.Go(func() {
		h, err := prepare()
		select {
		case results <- result{h, err}:
		case <-ctx.Done():
			probe.Release(h)
		}
	})
	select {
	case a := <-results:
		return a.handler, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// interruptible is a plugin's handler whose Prepare returns early if the context of the Manager ends.
type interruptible struct {
	probe.Handler
	manager *Manager
}

var (
	_ probe.Preparer = interruptible{}
	_ io.Closer      = interruptible{}
)

// Prepare implements [probe.Preparer].
func (i interruptible) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return i.manager.await(i.manager.ctx, func() (h probe.Handler, err error) {
		defer recovered(&err)
		return probe.Prepare(i.manager.ctx, i.Handler, config, target)
	})
}

// Close implements [io.Closer]. The wrapped handler must implement it.
func (i interruptible) Close() error { return i.Handler.(io.Closer).Close() }

// recovered turns a panic into an error. Call it with defer.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// prepare loads the plugin called name, if need be, and binds it to a probe.
func (m *Manager) prepare(name string, config []byte, target probe.Target) (h probe.Handler, err error) {
	defer recovered(&err)
	defer m.Hold(name)()
	for {
		r, err := m.demand(name)
		if err != nil {
			return nil, err
		}
		if r == nil {
			if _, err := m.cfg.Registry.Lookup(name); err != nil {
				return nil, err
			}
			continue // it has just been added
		}
		defer func() {
			m.mu.Lock()
			r.preparing--
			m.mu.Unlock()
		}()
		h, err := m.cfg.Registry.Prepare(name, config, target)
		m.noteSilence(name, err)
		return h, err
	}
}

// demand returns the plugin called name after loading it if necessary, and increments its count of
// probes in preparation. It returns nil if there is no such plugin.
func (m *Manager) demand(name string) (*record, error) {
	for {
		r, ready, err := m.ready(name)
		if r == nil || ready || err != nil {
			return r, err
		}
		if err := r.lock(m.ctx); err != nil {
			return nil, err
		}
		if !m.isUnused(r) { // another goroutine has loaded it
			r.unlock()
			continue
		}
		err = m.loadDemanded(r)
		r.unlock()
		if m.cfg.Demanded != nil {
			m.cfg.Demanded(err)
		}
		if err != nil {
			return nil, err
		}
	}
}

// ready returns the plugin called name, nil if there is none. ready is true if probes can be bound to the
// plugin now: it is Running, Withdrawn or Awaited. Then the count of probes in preparation is incremented.
// ready is false if the plugin must be loaded first. The error means that it cannot be loaded.
func (m *Manager) ready(name string) (r *record, ready bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = m.records[name]
	switch {
	case r == nil:
		return nil, false, m.missingLocked(name)
	case r.state == Failed:
		return nil, false, r.err
	case r.state == Unused:
		return r, false, nil
	}
	r.preparing++
	return r, true, nil
}

// isUnused reports whether r is still to be loaded.
func (m *Manager) isUnused(r *record) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[r.name] == r && r.state == Unused
}

// loadDemanded loads r, whose token the caller holds, for a probe.
func (m *Manager) loadDemanded(r *record) error {
	m.cfg.Log.Info("loading plugin", "handler", r.name) // the first compilation takes seconds
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		r.loading = false
	}()
	v, err := m.cfg.Scan(func(name string) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		r.loading = r.loading || name == r.name
		return name == r.name || m.wantsLocked(name)
	})
	if err != nil {
		m.fail(r, "", err, Failed)
		return err
	}
	m.Note(v)
	_, err = m.apply(m.ctx, r, v, false)
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	m.mu.Lock()
	dropped, runs := m.records[r.name] != r, r.state == Running || r.state == Withdrawn
	why := cmp.Or(r.err, err, m.missingLocked(r.name), errNotLoaded)
	m.mu.Unlock()
	switch {
	case dropped:
		return nil // the plugin was removed
	case !runs:
		return why
	case err != nil && m.cfg.Demanded != nil: // an error of the shadow, which must not fail the probe
		m.cfg.Demanded(err)
	}
	return nil
}

var errNotLoaded = errors.New("it was not loaded")

// missingLocked returns the error for a plugin without a record; nil if the name is unknown.
func (m *Manager) missingLocked(name string) error {
	switch e := m.latest.Plugin(name); e.State {
	case admit.Pending:
		return fmt.Errorf("plugin %q: %w", name, admit.ErrPending)
	case admit.Refused, admit.Away:
		return e.Reason
	}
	return nil
}

// silentFor is how long the manager does not call a plugin after it did not answer.
const silentFor = 30 * time.Second

// silence returns an error if the plugin called name did not answer in the last [silentFor].
// Otherwise each of a thousand probes could wait for the timeout. It does not include the error of
// the other probe, which may quote its config.
func (m *Manager) silence(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.silent[name]) {
		return fmt.Errorf("handler %q: not called, since it recently did not answer for another probe", name)
	}
	return nil
}

// noteSilence records that a plugin did not answer Prepare: err is a timeout, or there was no
// instance.
func (m *Manager) noteSilence(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, ErrWithdrawn):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, probe.ErrNoSlot), probe.ReasonOf(err) == probe.ReasonInstantiate:
		m.silent[name] = time.Now().Add(silentFor)
	}
}

// AskAgain allows calls of plugins that did not answer.
func (m *Manager) AskAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.silent)
}
