package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// SecretReference is a reference such as ${file:/run/secret} in a probe's config.
type SecretReference struct {
	Source string // "file" or "env"
	Name   string
}

// SecretReferences returns what the config of c refers to, in no order. It may name one
// more than once.
func (c *ProbeConfig) SecretReferences() (all []SecretReference) {
	if !c.annotated {
		return nil
	}
	_, _, err := ResolveSecrets(c.Config, func(source, name string) (string, error) {
		all = append(all, SecretReference{source, name})
		return "", nil
	})
	if err != nil {
		return nil // no JSON: no handler is ever bound to it
	}
	return all
}

// RefreshSecrets resolves the references in the configs of all probes again, by
// [Config.ResolveSecret]. A probe whose secrets are others now gets a handler that is bound
// to them. It keeps its schedule, its decided result and what its thresholds have counted,
// and what its handler keeps for it where that is a [probe.Inheritor];
// the result of an attempt under way is dropped. All other probes are left alone.
//
// A probe whose secrets cannot be resolved, or whose handler does not take them, goes on
// with those it has. The error joins one for every such probe, named by its pod and the
// path of its field. ctx ends the work between two probes.
//
// Whoever embeds a manager calls it when secrets may have changed: the manager watches none.
func (m *Manager) RefreshSecrets(ctx context.Context) error {
	var errs []error
	for _, e := range m.withSecrets() {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if err := m.refresh(e); err != nil {
			i := e.worker.Info()
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", i.Namespace, i.Pod, err))
		}
	}
	return errors.Join(errs...)
}

// withSecrets returns the probes whose configs refer to secrets.
func (m *Manager) withSecrets() (all []*entry) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, entries := range m.pods {
		for _, e := range entries {
			if e.shape.bound.mark != "" {
				all = append(all, e)
			}
		}
	}
	return all
}

// refresh binds a probe anew where its secrets have changed.
func (m *Manager) refresh(e *entry) error {
	for m.entry(e.key) == e {
		was := m.present(e)
		next, err := m.rebind(was, was.config)
		if err != nil || next == was.bound || m.changeTo(e, shape{was.config, next, was.changes + 1}, was) {
			return err
		}
	}
	return nil // it has ended
}

// resolved is the config of a probe with its references replaced.
type resolved struct {
	config  []byte
	secrets Secrets // that must not be shown
	mark    string  // a digest of config; "": there is no reference in it
}

// resolve replaces the references in the config of c.
func (m *Manager) resolve(c ProbeConfig) (resolved, error) {
	if !c.annotated || !secretReference.Match(c.Config) {
		return resolved{config: c.Config}, nil
	}
	config, secrets, err := m.resolveSecrets(c.Config)
	if err != nil {
		return resolved{}, fmt.Errorf("%s: %w", c.Path, err)
	}
	sum := sha256.Sum256(config)
	return resolved{config, secrets, string(sum[:])}, nil
}
