package history

import "time"

// Lazy returns cfg without syncs, for tests in which nothing has to be durable.
func Lazy(cfg Config) Config {
	cfg.noSync = true
	return cfg
}

// SetMaxDetails sets how many bytes of incidents a report has in memory.
func (s *Store) SetMaxDetails(n int) { s.maxDetails = n }

// WatchCommits has watch called before each commit, and what it returns after it. It is called before Run.
func (s *Store) WatchCommits(watch func() func()) { s.watch = watch }

// FileSize returns the size of the file, without what it has grown ahead.
func (s *Store) FileSize() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// MaxSize returns the most bytes of the file.
func (s *Store) MaxSize() int64 { return s.maxSize() }

// Window is how long a window is.
const Window time.Duration = window

// The limits of what waits for the writer.
const (
	MaxQueue   = maxQueue
	MaxPending = maxPending
	MaxTexts   = maxTexts
)
