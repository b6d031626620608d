package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/core/states"
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
	StateDir  string        // the database is in its folder "history"
	Budget    int64         // bytes in use in the database; 0: [DefaultBudget]
	Retention time.Duration // 0: [DefaultRetention]
	Log       *slog.Logger  // nil drops what would be logged

	noSync bool // for tests, in which nothing has to be durable
}

// Store keeps the history. It is an observer of ticks and a reader of states: neither waits for a disk.
// Its other methods are safe for concurrent use.
type Store struct {
	cfg    Config
	dir    string
	log    *slog.Logger
	made   time.Time // no probe existed before
	intake intake
	broken chan struct{} // a reader has found damage
	watch  func() func() // of commits, for tests. Read-only after New

	mu         sync.Mutex
	db         *db             // nil: none is open
	running    bool            // Run writes
	windows    []record.Window // by number
	bytes      int64           // in use
	size       int64           // of the file
	trouble    trouble
	counts     counts
	maxDetails int  // of a report; 0 for the default. Read-only after New
	limited    bool // windows were dropped for the budget, which was logged
}

var (
	_ worker.Observer = (*Store)(nil)
	_ states.Reader   = (*Store)(nil)
)

// trouble is what is wrong with the database.
type trouble struct {
	failing error // why nothing can be written; nil if it can
	since   time.Time
	fold    error  // why windows cannot be made smaller; nil if they can
	damage  string // what was found damaged last, at the time damaged
	damaged time.Time
	later   string // why nothing is recorded; "" if it is
}

type counts struct{ errors, minutes uint64 }

// New returns a store. It reads and writes no file before [Store.Run].
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, dir: filepath.Join(cfg.StateDir, "history"), log: cfg.Log, made: time.Now(), broken: make(chan struct{}, 1)}
	s.cfg.Budget = cmp.Or(cfg.Budget, DefaultBudget)
	s.cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
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
	folding, stop := context.WithCancel(ctx)
	var folds sync.WaitGroup
	folds.Go(func() { s.foldAll(folding, w) })
	w.run(ctx)
	stop()
	folds.Wait()
}

// maxSize returns the most bytes of the file: what is dropped leaves holes, which are filled again.
func (s *Store) maxSize() int64 { return s.cfg.Budget + max(s.cfg.Budget/16, 8<<20) }

// use sets the database for readers; nil: there is none.
func (s *Store) use(h *db) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db = h
}

// opened sets the database and its windows.
func (s *Store) opened(h *db, windows []record.Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.windows = h, windows
}

func (s *Store) handle() *db {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db
}

// view runs a transaction that reads, see [db.view].
func (s *Store) view(f func(*bbolt.Tx) error) error {
	h := s.handle()
	if h == nil {
		return errClosed
	}
	return s.viewIn(h, f)
}

func (s *Store) viewIn(h *db, f func(*bbolt.Tx) error) error { return s.checked(h, h.view(f)) }

// checked tells the writer if an error is that of damage, of which it returns an [errCorrupt].
func (s *Store) checked(h *db, err error) error {
	if errors.Is(err, record.ErrDamaged) && !errors.Is(err, errCorrupt) {
		err = fmt.Errorf("%w: %w", errCorrupt, err)
		h.condemn(err)
	}
	if errors.Is(err, errCorrupt) {
		select {
		case s.broken <- struct{}{}:
		default:
		}
	}
	return err
}

// sized notes how many bytes are in use, and the size of the file.
func (s *Store) sized(used, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.size = used, size
}

// Trouble returns what is wrong with the database now, for people. Damage is told for a day.
func (s *Store) Trouble() (all []string) {
	s.mu.Lock()
	t := s.trouble
	s.mu.Unlock()
	if t.failing != nil {
		all = append(all, fmt.Sprintf("cannot be written since %s: %v", t.since.Format(time.RFC3339), t.failing))
	}
	if t.fold != nil {
		all = append(all, fmt.Sprintf("cannot be folded: %v", t.fold))
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

// Bytes returns how much of the database is in use.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
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

// folded notes whether windows can be folded. That they cannot is logged once.
func (s *Store) folded(err error) {
	s.mu.Lock()
	first := err != nil && s.trouble.fold == nil
	if s.trouble.fold = err; err != nil {
		s.counts.errors++
	}
	s.mu.Unlock()
	if first {
		s.log.Error("history cannot be folded; it is tried again", "error", err)
	}
}

// damaged reports that the database was damaged, and is now kept as aside.
func (s *Store) damaged(aside string, why error) {
	s.mu.Lock()
	s.trouble.damage, s.trouble.damaged = fmt.Sprintf("%s %v; it is kept as %s", dbName, why, aside), time.Now()
	s.counts.errors++
	s.mu.Unlock()
	s.log.Error("history is damaged; another one begins", "file", dbName, "error", why, "kept", aside)
}

// laterVersion reports that the database is not used.
func (s *Store) laterVersion(name string, err error) {
	s.mu.Lock()
	s.trouble.later = name + " " + err.Error()
	s.counts.errors++
	s.mu.Unlock()
	s.log.Error("history is not used", "file", name, "error", err)
}

// tellLimited reports, once, that the budget is too small for the retention.
func (s *Store) tellLimited(until int64) {
	s.mu.Lock()
	first := !s.limited
	s.limited = true
	s.mu.Unlock()
	if first {
		s.log.Warn("history does not fit its budget; the oldest is dropped",
			"budget", s.cfg.Budget, "until", time.UnixMilli(until).UTC().Format(time.RFC3339))
	}
}

// dropped counts what was not kept.
func (s *Store) dropped(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.minutes += uint64(n)
}
