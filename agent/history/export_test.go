package history

import "time"

// Lazy returns cfg without syncs, for tests that need no durability.
func Lazy(cfg Config) Config {
	cfg.noSync = true
	return cfg
}

// SetMaxDetails sets the limit of bytes of incidents in memory for a report.
func (s *Store) SetMaxDetails(n int) { s.maxDetails = n }

// WatchCommits calls watch before each commit, and the function that it returns afterwards. It must be called
// before Run.
func (s *Store) WatchCommits(watch func() func()) { s.watch = watch }

// FileSize returns the size of the file without the space allocated ahead.
func (s *Store) FileSize() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// MaxSize returns the limit of the file's size in bytes.
func (s *Store) MaxSize() int64 { return s.maxSize() }

// Window is the length of a window.
const Window time.Duration = window

// The limits of pending data.
const (
	MaxQueue   = maxQueue
	MaxPending = maxPending
	MaxTexts   = maxTexts
)
