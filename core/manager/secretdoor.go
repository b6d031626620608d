package manager

import "github.com/daeace23/prober/probe"

// Secrets are the values that the references in a config stood for. The zero value has
// none.
type Secrets struct{ values []string }

// ResolveSecrets replaces the references in a handler's config as AddPod does, for
// whoever prepares handlers without a manager. resolve is [Config.ResolveSecret].
func ResolveSecrets(config []byte, resolve func(source, name string) (string, error)) ([]byte, Secrets, error) {
	m := Manager{cfg: Config{ResolveSecret: resolve}}
	resolved, values, err := m.resolveSecrets(config)
	secrets := Secrets{values}
	return resolved, secrets, secrets.Error(err)
}

// Handler returns a handler that never lets go of the secrets, in output, error, metric
// or trace, and is told how to keep them out of its log.
func (s Secrets) Handler(h probe.Handler) probe.Handler { return redacted(h, s.values) }

// Error returns an error whose text is without the secrets. It may be nil.
func (s Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	return redactError(err, s.values)
}
