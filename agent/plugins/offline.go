package plugins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/probe"
)

// static is a process plugin that is checked without running it.
type static struct {
	probe.HandlerFunc // nil: it probes nothing
	plugin            *plugin.Manifest
	warn              func(text string)
}

var (
	_ probe.Preparer      = static{}
	_ probe.SecretChecker = static{}
	_ io.Closer           = static{}
)

// loadOffline returns a handler that checks configs. It does not check whether this host has the command of a
// check plugin.
func (s *Set) loadOffline(p admit.Plugin) (live.Loaded, error) {
	if p.Manifest.Runtime == plugin.Nagios {
		if _, _, _, err := process.CommandOf(p.Found); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return live.Loaded{}, fmt.Errorf("%w (%s)", err, p.Path)
		}
	}
	return live.Loaded{Handler: static{plugin: p.Manifest, warn: func(text string) { s.cfg.Log.Warn(text) }}, Stats: func() live.Stats { return live.Stats{} }}, nil
}

// CheckSecrets implements [probe.SecretChecker] like a check plugin.
func (s static) CheckSecrets(fields []string) error { return s.plugin.CheckSecrets(fields) }

// Prepare implements [probe.Preparer].
func (s static) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	if s.plugin.SecretsInArguments && s.plugin.HasInArguments(declared.SecretFields(config)) {
		s.warn(fmt.Sprintf("plugin %q: %s", s.plugin.Name, plugin.SecretsInArgumentsWarning))
	}
	_, err := s.plugin.Config.Apply(config)
	return s, err
}

// Close implements [io.Closer].
func (static) Close() error { return nil }
