package cli

import (
	"cmp"
	"log/slog"
	"reflect"
	"sync"

	"github.com/daeace23/prober/config"
)

// nodeSection is the section kubernetes of prober.yaml at the start of an agent. It logs when the section in
// the file differs, since only a restart applies it. The zero value is ready to use.
type nodeSection struct {
	mu      sync.Mutex
	applied *config.Kubernetes // nil until the agent has started
	newest  *config.Kubernetes // in the file
	log     *slog.Logger
	file    string
}

// start sets the applied section.
func (s *nodeSection) start(applied *config.Kubernetes, log *slog.Logger, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.newest, s.log, s.file = applied, applied, log, file
}

// configured handles the contents of the file after a reload. It logs each change of the section once.
func (s *nodeSection) configured(c *config.Agent) {
	next := cmp.Or(c.Kubernetes, config.DefaultKubernetes())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied == nil || reflect.DeepEqual(next, s.newest) {
		return
	}
	s.newest = next
	if reflect.DeepEqual(next, s.applied) {
		s.log.Info("the section kubernetes of prober.yaml is again the one that is applied", "file", s.file)
		return
	}
	s.log.Warn("the section kubernetes of prober.yaml has changed, and is not applied: restart the agent to apply it", "file", s.file)
}
