package cli

import (
	"cmp"
	"log/slog"
	"reflect"
	"sync"

	"github.com/daeace23/prober/config"
)

// nodeSection is the section kubernetes of prober.yaml that an agent has started with. It says when the file has another
// one, which only a restart applies. The zero value has none yet.
type nodeSection struct {
	mu      sync.Mutex
	applied *config.Kubernetes // nil: the agent has not started
	newest  *config.Kubernetes // in the file
	log     *slog.Logger
	file    string
}

// start takes the section that is applied.
func (s *nodeSection) start(applied *config.Kubernetes, log *slog.Logger, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.newest, s.log, s.file = applied, applied, log, file
}

// configured takes the contents of the file after a reload, and logs once that its section has changed.
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
