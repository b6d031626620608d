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
	made   time.Time // no probe existed before

	mu         sync.Mutex
	opened     bool
	running    bool       // Run writes
	files      []fileInfo // by seq
	next       uint64     // seq of the next file
	trouble    trouble
	counts     counts
	maxDetails int             // of a report; 0 for the default. Read-only after New
	suspects   map[uint64]bool // files that were found damaged
	limited    bool            // files were dropped for the budget, which was logged
}

var (
	_ worker.Observer = (*Store)(nil)
	_ states.Reader   = (*Store)(nil)
)

// trouble is what is wrong with the files.
type trouble struct {
	failing error // why nothing can be written; nil if it can
	since   time.Time
	compact error  // why files cannot be made smaller; nil if they can
	damage  string // what was found damaged last, at the time damaged
	damaged time.Time
	later   string // a file of a later version of prober; "" for none
}

type counts struct{ errors, minutes uint64 }

// New returns a store. It reads and writes no file before [Store.Run].
func New(cfg Config) *Store {
	s := &Store{made: time.Now(), cfg: cfg, dir: filepath.Join(cfg.StateDir, "history"), log: cfg.Log, disk: cfg.disk}
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

// Trouble returns what is wrong with the files now, for people. Damage is told for a day.
func (s *Store) Trouble() (all []string) {
	s.mu.Lock()
	t := s.trouble
	s.mu.Unlock()
	if t.failing != nil {
		all = append(all, fmt.Sprintf("cannot be written since %s: %v", t.since.Format(time.RFC3339), t.failing))
	}
	if t.compact != nil {
		all = append(all, fmt.Sprintf("cannot be compacted: %v", t.compact))
	}
	if t.damage != "" && time.Since(t.damaged) < 24*time.Hour {
		all = append(all, t.damage)
	}
	if t.later != "" {
		all = append(all, t.later)
	}
	return all
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
	first := s.trouble.failing == nil
	if first {
		s.trouble.since = time.Now()
	}
	s.trouble.failing = err
	s.counts.errors++
	s.mu.Unlock()
	if first {
		s.log.Error("history cannot be written; probing goes on", "error", err)
	}
}

func (s *Store) recovered() {
	s.mu.Lock()
	was := s.trouble.failing
	s.trouble.failing = nil
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
	first := err != nil && s.trouble.compact == nil
	if s.trouble.compact = err; err != nil {
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
	s.trouble.damage, s.trouble.damaged = text, time.Now()
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
