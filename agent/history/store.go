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

// MinBudget is the smallest valid [Config].Budget, in bytes.
const MinBudget = 16 << 20

// Config configures a [Store]. StateDir is required.
type Config struct {
	StateDir  string        // the database is in its folder "history"
	Budget    int64         // bytes in use in the database; 0: [DefaultBudget]
	Retention time.Duration // 0: [DefaultRetention]
	Log       *slog.Logger  // nil discards log records

	noSync bool // for tests that need no durability
}

// Store keeps the history. It is an observer of ticks and a reader of states; neither waits for a disk.
// Its other methods are safe for concurrent use.
type Store struct {
	cfg    Config
	dir    string
	log    *slog.Logger
	made   time.Time // when the store was created: no probe is older
	intake intake
	broken chan struct{} // signals that a reader found damage
	watch  func() func() // called around commits, for tests. Read-only after New

	mu         sync.Mutex
	db         *db             // nil: none is open
	running    bool            // Run is writing
	windows    []record.Window // sorted by number
	bytes      int64           // in use
	size       int64           // of the file
	trouble    trouble
	counts     counts
	maxDetails int  // bytes of incidents in memory for a report; 0 for the default. Read-only after New
	limited    bool // it was logged that windows are dropped for the budget
}

var (
	_ worker.Observer = (*Store)(nil)
	_ states.Reader   = (*Store)(nil)
)

// trouble holds the present faults of the database.
type trouble struct {
	failing error // why writes fail; nil if they succeed
	since   time.Time
	fold    error  // why the last fold failed; nil if it succeeded
	damage  string // the damage found last, at the time damaged
	damaged time.Time
	later   string // why nothing is recorded; "" if it is recorded
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

// End tells the store that the agent is stopping: changes of probes are not recorded from now on.
func (s *Store) End() { s.intake.end() }

// Run writes until ctx ends. It returns when everything is written, or cannot be written.
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

// maxSize returns the limit of the file's size in bytes. It exceeds the budget, as deleted records leave
// free pages that are reused later.
func (s *Store) maxSize() int64 { return s.cfg.Budget + max(s.cfg.Budget/16, 8<<20) }

// use sets the database for readers; nil if none is open.
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

// view runs f in a read transaction, see [db.view]. It returns errClosed if no database is open.
func (s *Store) view(f func(*bbolt.Tx) error) error {
	h := s.handle()
	if h == nil {
		return errClosed
	}
	return s.viewIn(h, f)
}

func (s *Store) viewIn(h *db, f func(*bbolt.Tx) error) error { return s.checked(h, h.view(f)) }

// checked returns err. If err reports damage, it returns it as an [errCorrupt] and signals the writer.
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

// sized records the bytes in use and the size of the file.
func (s *Store) sized(used, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.size = used, size
}

// Trouble returns messages for people about the present faults of the database. Damage is reported for a day.
func (s *Store) Trouble() (all []string) {
	s.mu.Lock()
	t := s.trouble
	s.mu.Unlock()
	if t.failing != nil {
		all = append(all, fmt.Sprintf("cannot be written since %s: %v", t.since.Format(time.RFC3339), t.failing))
	}
	if t.fold != nil {
		all = append(all, fmt.Sprintf("cannot be compacted: %v", t.fold))
	}
	if t.damage != "" && time.Since(t.damaged) < 24*time.Hour {
		all = append(all, t.damage)
	}
	if t.later != "" {
		all = append(all, t.later)
	}
	return all
}

// Errors returns how many reads and writes have failed.
func (s *Store) Errors() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.errors
}

// Bytes returns how many bytes of the database are in use.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Dropped returns how many changes and minutes were dropped because the disk was full or too slow.
func (s *Store) Dropped() uint64 {
	queue := s.intake.drops()
	s.mu.Lock()
	defer s.mu.Unlock()
	return queue + s.counts.minutes
}

// failed records that writing fails. It is logged once, until [Store.recovered].
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

// folded records the result of a fold. The first error after a success is logged.
func (s *Store) folded(err error) {
	s.mu.Lock()
	first := err != nil && s.trouble.fold == nil
	if s.trouble.fold = err; err != nil {
		s.counts.errors++
	}
	s.mu.Unlock()
	if first {
		s.log.Error("history cannot be compacted; will retry", "error", err)
	}
}

// damaged records that the database was damaged and renamed to aside.
func (s *Store) damaged(aside string, why error) {
	s.mu.Lock()
	s.trouble.damage, s.trouble.damaged = fmt.Sprintf("%s %v; it is kept as %s", dbName, why, aside), time.Now()
	s.counts.errors++
	s.mu.Unlock()
	s.log.Error("history is damaged; a new database begins", "file", dbName, "error", why, "kept", aside)
}

// laterVersion records that the database is not used, as a later version wrote it.
func (s *Store) laterVersion(name string, err error) {
	s.mu.Lock()
	s.trouble.later = name + " " + err.Error()
	s.counts.errors++
	s.mu.Unlock()
	s.log.Error("history is not used", "file", name, "error", err)
}

// warnLimited logs, once, that the budget is too small for the retention.
func (s *Store) warnLimited(until int64) {
	s.mu.Lock()
	first := !s.limited
	s.limited = true
	s.mu.Unlock()
	if first {
		s.log.Warn("history does not fit its budget; the oldest is dropped",
			"budget", s.cfg.Budget, "until", time.UnixMilli(until).UTC().Format(time.RFC3339))
	}
}

// dropped counts n records that were not kept.
func (s *Store) dropped(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.minutes += uint64(n)
}
