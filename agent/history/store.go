package history

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/states"
	"github.com/daeace23/prober/core/worker"
)

// The defaults of [Config].
const (
	DefaultBudget    = 1 << 30
	DefaultRetention = 30 * 24 * time.Hour
)

// MinBudget is the least [Config].Budget.
const MinBudget = 16 << 20

// Config is what [New] needs.
type Config struct {
	StateDir  string        // the files are in its folder "history"
	Budget    int64         // bytes of all files; 0: [DefaultBudget]
	Retention time.Duration // 0: [DefaultRetention]
	Log       *slog.Logger  // nil drops what would be logged

	disk disk // for tests
}

// Store keeps the history. It is an observer of ticks and a reader of states: neither waits for a disk.
// Its other methods are safe for concurrent use.
type Store struct {
	cfg    Config
	dir    string
	log    *slog.Logger
	disk   disk
	intake intake

	mu         sync.Mutex
	opened     bool
	running    bool       // Run writes
	files      []fileInfo // by seq
	next       uint64     // seq of the next file
	trouble    Trouble
	counts     counts
	maxDetails int             // of a report; 0 for the default. Read-only after New
	suspects   map[uint64]bool // files that were found damaged
	limited    bool            // files were dropped for the budget, which was logged
}

var (
	_ worker.Observer = (*Store)(nil)
	_ states.Reader   = (*Store)(nil)
)

// Trouble is what is wrong with the files.
type Trouble struct {
	Failing error // why nothing can be written; nil if it can
	Since   time.Time
	Compact error  // why files cannot be made smaller; nil if they can
	Damage  string // what was found damaged last; "" if nothing was within a day
	damaged time.Time
	Later   string // a file of a later version of prober; "" for none
}

type counts struct{ errors, minutes uint64 }

// New returns a store. It reads and writes no file before [Store.Run].
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, dir: filepath.Join(cfg.StateDir, "history"), log: cfg.Log, disk: cfg.disk}
	s.cfg.Budget = cmp.Or(cfg.Budget, DefaultBudget)
	s.cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.disk == nil {
		s.disk = osDisk{}
	}
	s.intake.live, s.intake.signal = make(map[id]*observed), make(chan struct{}, 1)
	return s
}

// End says that what happens to probes from now on is the end of the agent.
func (s *Store) End() { s.intake.end() }

// Run writes until ctx ends. It returns when everything is written, or cannot be.
func (s *Store) Run(ctx context.Context) {
	w := newWriter(s)
	w.start(time.Now())
	var compacting sync.WaitGroup
	compacting.Go(func() { s.compactAll(ctx, w.finished) })
	w.run(ctx)
	compacting.Wait()
}

// Trouble returns what is wrong with the files now.
func (s *Store) Trouble() Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trouble
	if time.Since(t.damaged) > 24*time.Hour {
		t.Damage = ""
	}
	return t
}

// Errors returns how often reading or writing has failed.
func (s *Store) Errors() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.errors
}

// Bytes returns the size of all files.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytesLocked()
}

func (s *Store) bytesLocked() (total int64) {
	for i := range s.files {
		total += s.files[i].size
	}
	return total
}

// Dropped returns how many changes and minutes were not kept, because the disk was full or too slow.
func (s *Store) Dropped() uint64 {
	queue := s.intake.drops()
	s.mu.Lock()
	defer s.mu.Unlock()
	return queue + s.counts.minutes
}

// failed reports that nothing can be written. It is logged once, until [Store.recovered].
func (s *Store) failed(err error) {
	s.mu.Lock()
	first := s.trouble.Failing == nil
	if first {
		s.trouble.Since = time.Now()
	}
	s.trouble.Failing = err
	s.counts.errors++
	s.mu.Unlock()
	if first {
		s.log.Error("history cannot be written; probing goes on", "error", err)
	}
}

func (s *Store) recovered() {
	s.mu.Lock()
	was := s.trouble.Failing
	s.trouble.Failing = nil
	s.mu.Unlock()
	if was != nil {
		s.log.Info("history is written again")
	}
}

// countError counts an error that changes nothing.
func (s *Store) countError() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.errors++
}

// compacted notes whether files can be compacted. That they cannot is logged once.
func (s *Store) compacted(err error) {
	s.mu.Lock()
	first := err != nil && s.trouble.Compact == nil
	if s.trouble.Compact = err; err != nil {
		s.counts.errors++
	}
	s.mu.Unlock()
	if first {
		s.log.Error("history cannot be compacted; it is tried again", "error", err)
	}
}

// damaged reports that a part of a file is lost.
func (s *Store) damaged(name, format string, args ...any) {
	text := name + " " + fmt.Sprintf(format, args...)
	s.mu.Lock()
	s.trouble.Damage, s.trouble.damaged = text, time.Now()
	s.counts.errors++
	s.mu.Unlock()
	s.log.Error("history is damaged; the rest of it is kept", "file", name, "error", fmt.Sprintf(format, args...))
}

// dropped counts what was not kept.
func (s *Store) dropped(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.minutes += uint64(n)
}
