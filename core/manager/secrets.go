package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/daeace23/prober/core/declared"
)

// RefreshSecrets resolves the references in the configs of all probes again, with
// [Config.ResolveSecret]. A probe whose secrets have changed gets a handler that is bound to
// them. It keeps its schedule, its decided result and its run of equal results. It also keeps
// the state of its handler, if that is a [probe.Inheritor]. The attempt under way
// is made again, and a liveness or startup probe that is on hold after a failure is probed again.
// The other probes are not changed.
//
// A probe whose secrets cannot be resolved, or whose handler refuses them, goes on with the
// old ones. The error joins one for every such probe, with its pod and the path of its field.
// The end of ctx ends the work between two probes.
//
// The manager does not watch secrets. Call RefreshSecrets when they may have changed.
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
		if t, _ := tagOf(was.Probe); t.mark == "" { // it has no secrets
			return nil
		}
		config := annotatedConfig(was.Probe)
		next, err := m.rebind(was, config)
		if err != nil {
			subject := was.Task.Subject
			return fmt.Errorf("pod %s/%s: %w", subject.Namespace, subject.Pod, err)
		}
		if next.kept || m.changeTo(was, config, next, false) {
			return nil
		}
	}
}

// resolved is the config of a probe with its references replaced.
type resolved struct {
	config  []byte
	secrets declared.Secrets
	mark    string // a digest of config; "": there is no reference in it
}

// resolve replaces the references in the config of c.
func (m *Manager) resolve(c ProbeConfig) (resolved, error) {
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
	return resolved{config, secrets, string(sum[:])}, nil
}
