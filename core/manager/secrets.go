package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/daeace23/prober/core/declared"
)

// RefreshSecrets resolves the references in the configs of all probes again, with [Config.ResolveSecret]. A
// probe whose secrets have changed gets a handler bound to the new ones. It keeps its schedule, its decided
// result and its run of equal results, and the state of its handler if that is a [probe.Inheritor]. The
// attempt under way is cancelled and repeated. A liveness or startup probe that is on hold after a failure
// is probed again. Other probes are not changed.
//
// If the secrets of a probe cannot be resolved, or its handler refuses them, the probe continues with the
// old ones. The error joins an error for every such probe, with its pod and the path of its field. If ctx
// ends, RefreshSecrets returns before the next probe.
//
// The manager does not watch secrets. Call RefreshSecrets when they may have changed.
// See RATIONALE.md, "Why does the manager not watch secrets?"
func (m *Manager) RefreshSecrets(ctx context.Context) error {
	var errs []error
	for _, id := range m.group.IDs() {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if err := m.refresh(id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// refresh binds a probe again if its secrets have changed.
func (m *Manager) refresh(id probeID) error {
	for {
		was, running := m.current(id)
		if !running {
			return nil
		}
		if t, _ := tagOf(was.Probe); t.mark == "" { // the probe has no secrets
			return nil
		}
		config := annotatedConfig(was.Probe)
		next, err := m.rebind(was, config)
		if err != nil {
			subject := was.Task.Subject
			return fmt.Errorf("pod %s/%s: %w", subject.Namespace, subject.Pod, err)
		}
		if next.reused || m.changeTo(was, config, next, false) {
			return nil
		}
	}
}

// resolved is the config of a probe with its references replaced.
type resolved struct {
	config  []byte
	secrets declared.Secrets
	mark    string // digest of config; "" if it has no reference
	checks  []resolved
}

// resolve replaces the references in the config of c.
func (m *Manager) resolve(c ProbeConfig) (resolved, error) {
	if c.Combined != nil {
		return m.resolveChecks(c)
	}
	if !c.RefersToSecret() {
		return resolved{config: c.Config}, nil
	}
	var config []byte
	var secrets declared.Secrets
	err := m.call("Config.ResolveSecret", func() (err error) {
		config, secrets, err = declared.ResolveSecrets(c.Config, m.cfg.ResolveSecret)
		return err
	})
	if err != nil {
		return resolved{}, &declared.Error{Path: c.FieldPath(), Err: err}
	}
	sum := sha256.Sum256(config)
	return resolved{config: config, secrets: secrets, mark: string(sum[:])}, nil
}

// resolveChecks replaces the references in the configs of the checks of c. Their marks together are the mark.
func (m *Manager) resolveChecks(c ProbeConfig) (r resolved, err error) {
	r.checks = make([]resolved, len(c.Combined.Checks))
	for i, check := range c.Combined.Checks {
		if r.checks[i], err = m.resolve(check); err != nil {
			return resolved{}, err
		}
		r.mark += r.checks[i].mark
	}
	return r, nil
}
