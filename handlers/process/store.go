package process

import (
	"maps"
	"sync"
)

// store is what a probe keeps from attempt to attempt.
type store struct {
	mu   sync.Mutex
	kept map[string][]byte // never changed, only replaced
}

// all returns what is kept, which is not to be changed.
func (s *store) all() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// Kept returns a copy of what the probe keeps from attempt to attempt, for tests.
func (b *bound) Kept() map[string][]byte { return maps.Clone(b.store.all()) }

// Keep replaces what is kept.
func (b *bound) Keep(data map[string][]byte) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.kept = maps.Clone(data)
}
