package attempt

import (
	"sync"

	"github.com/daeace23/prober/internal/abi"
)

// Store holds the keys and values that a probe keeps between attempts. The zero value is empty. It is
// safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	data map[string][]byte // never changed, only replaced
}

// Load returns all keys and values. The caller must not change them.
func (s *Store) Load() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// Replace replaces all keys and values by data. The caller must not change data afterwards.
func (s *Store) Replace(data map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
}

// ReplaceWithin replaces all keys and values by data. It returns an error if there are too many keys, or
// more than limit bytes.
func (s *Store) ReplaceWithin(data map[string][]byte, limit int) error {
	if n := len(data); n > abi.MaxKVKeys {
		return ProtocolError("%d keys; at most %d are allowed", n, abi.MaxKVKeys)
	}
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if size > limit {
		return ProtocolError("keys and values of %d bytes; at most %d are allowed", size, limit)
	}
	s.Replace(data)
	return nil
}
