package plugintest

import (
	"io"
	"math/rand/v2"
	"sync"
)

// seeded is the randomness of guests: the same for each run of a case.
type seeded struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

var _ io.Reader = (*seeded)(nil)

func (s *seeded) seed(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
}

// Read implements [io.Reader].
func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Read(p)
}
