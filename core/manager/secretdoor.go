package manager

import (
	"context"

	"github.com/daeace23/prober/probe"
)

// Secrets are the values that the references in a config stood for. The zero value has
// none.
type Secrets struct {
	values []string
	fields []string // of the config
}

// ResolveSecrets replaces the references in a handler's config as AddPod does, for
// whoever prepares handlers without a manager. resolve is [Config.ResolveSecret].
func ResolveSecrets(config []byte, resolve func(source, name string) (string, error)) ([]byte, Secrets, error) {
	m := Manager{cfg: Config{ResolveSecret: resolve}}
	resolved, secrets, err := m.resolveSecrets(config)
	return resolved, secrets, secrets.Error(err)
}

// Handler returns a handler that never lets go of the secrets, in output, error, metric
// or trace, and is told how to keep them out of its log. Where h does not take secrets in
// their fields of the config, every attempt ends in an error; see [probe.SecretChecker].
func (s Secrets) Handler(h probe.Handler) probe.Handler {
	if err := probe.CheckSecrets(h, s.fields); err != nil {
		return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, err })
	}
	return redacted(h, s.values)
}

// Error returns an error whose text is without the secrets. It may be nil.
func (s Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	return redactError(err, s.values)
}
