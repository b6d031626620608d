package attempt

import (
	"sync"

	"github.com/daeace23/prober/internal/abi"
)

// Store holds the keys and values of a probe, which last from attempt to attempt. It is safe for
// concurrent use; the zero value is empty.
type Store struct {
	mu   sync.Mutex
	data map[string][]byte // replaced, never changed
}

// Load returns all keys and values, which must not be changed.
func (s *Store) Load() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// Replace replaces all keys and values by data, which the store owns from then on.
func (s *Store) Replace(data map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
}

// ReplaceWithin replaces all keys and values by data. It is an error if there are too many keys, or
// more than most bytes.
func (s *Store) ReplaceWithin(data map[string][]byte, most int) error {
	if n := len(data); n > abi.MaxKVKeys {
		return ProtocolError("%d keys; at most %d are allowed", n, abi.MaxKVKeys)
	}
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if size > most {
		return ProtocolError("keys and values of %d bytes; at most %d are allowed", size, most)
	}
	s.Replace(data)
	return nil
}
