package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/internal/ownership"
)

const (
	dbName     = "history.db"
	asideInfix = ".corrupt-" // in the name of a damaged file, before the time
	maxAside   = 3
	growBytes  = 1 << 20 // by which the file grows
)

// errCorrupt matches the error of a database that must be replaced.
var errCorrupt = errors.New("is damaged")

// db is an open database. bbolt trusts its file: pages have no checksums, and a damaged page may cause a
// panic, a fault of the mapped memory, or wrong data. So all access goes through view and update, which
// return [errCorrupt] for a panic or a fault, and values are sealed with checksums (package record).
// See RATIONALE.md, "Why is the history kept in bbolt?"
type db struct {
	path  string
	bolt  *bbolt.DB
	file  *os.File
	watch func() func() // called around commits, for tests; may be nil

	mu    sync.Mutex // held to begin a transaction
	stuck bool       // a panic left bbolt's locks held: bbolt must not be called again
	bad   error      // why the database is corrupt
}

// openDB opens or creates a database. maxSize bounds the size of its file. The freelist is written with each
// commit: without it, bbolt reads all pages when it opens the file, and after each failed commit. That takes
// 5.3 s instead of 0.3 ms for 720 MB. With 20 MB of free pages, the freelist is 45 of the 70 KB of a commit.
func openDB(path string, maxSize int64, noSync bool) (_ *db, err error) {
	h := &db{path: path}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer h.guard(&err)
	defer func() {
		if h.bolt == nil && h.file != nil { // after a panic within Open. Its mapping leaks
			_ = h.file.Close()
		}
	}()
	h.bolt, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, MaxSize: int(min(maxSize, math.MaxInt)), NoSync: noSync, NoGrowSync: noSync,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := ownership.OpenFile(name, flag, perm)
			if err == nil {
				h.file = f
			}
			return f, err
		},
	})
	if err != nil {
		return nil, err
	}
	h.bolt.AllocSize = growBytes
	return h, nil
}

// guard turns a panic into an [errCorrupt]. It is deferred.
func (h *db) guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errCorrupt, p)
	}
}

// view runs f in a read transaction. f must be short, and must not retain keys or values.
func (h *db) view(f func(*bbolt.Tx) error) error { return h.do(false, f) }

// update runs f in a write transaction. Only the owner calls it. After an error that f did not return, the
// database must be opened again: it is unknown which part of the commit reached the disk.
func (h *db) update(f func(*bbolt.Tx) error) error { return h.do(true, f) }

func (h *db) do(writes bool, f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if errors.Is(err, record.ErrDamaged) {
			err = fmt.Errorf("%w: %w", errCorrupt, err)
		}
		if errors.Is(err, errCorrupt) {
			h.condemn(err)
		}
	}()
	tx, err := h.begin(writes)
	if err != nil {
		return err
	}
	defer h.end(tx, &err)
	defer h.guard(&err)
	if err := f(tx); err != nil || !writes {
		return err
	}
	if h.watch != nil {
		defer h.watch()()
	}
	return tx.Commit()
}

// begin begins a transaction. bbolt holds locks meanwhile: a panic there leaves them held.
func (h *db) begin(writes bool) (tx *bbolt.Tx, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stuck {
		return nil, cmp.Or(h.bad, errCorrupt)
	}
	h.stuck = true
	defer h.guard(&err)
	tx, err = h.bolt.Begin(writes)
	h.stuck = false
	return tx, err
}

// end ends a transaction, also after a panic in it: a read transaction holds a lock that the writer needs.
func (h *db) end(tx *bbolt.Tx, err *error) {
	ended := false
	defer func() {
		if !ended {
			h.mu.Lock()
			h.stuck = true
			h.mu.Unlock()
		}
	}()
	defer h.guard(err)
	_ = tx.Rollback() // a no-op after a commit
	ended = true
}

// condemn marks the database as corrupt.
func (h *db) condemn(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad = cmp.Or(h.bad, err)
}

func (h *db) condemned() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

// close closes the database after its readers, which are short. If a panic left locks held, closing would
// block forever: then only the file is closed, and its mapping leaks.
func (h *db) close() {
	h.mu.Lock()
	stuck := h.stuck
	h.mu.Unlock()
	if stuck {
		_ = h.file.Close()
		return
	}
	var err error
	defer h.guard(&err)
	_ = h.bolt.Close() // commits are synced already
}

// used returns the bytes of the pages in use, and the size of the file without the space allocated ahead.
func (h *db) used() (used, size int64) {
	err := h.view(func(tx *bbolt.Tx) error { size = tx.Size(); return nil })
	if err != nil {
		return 0, 0
	}
	s := h.bolt.Stats()
	return size - int64(s.FreePageN+s.PendingPageN)*int64(h.bolt.Info().PageSize), size
}

// syncDir makes the names in dir durable. It ignores errors: some systems cannot sync a directory.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// setAside renames a database that cannot be used, and returns the new name. It keeps the newest maxAside
// of these files.
func setAside(path string) (string, error) {
	aside := path + asideInfix + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	all, _ := filepath.Glob(escaped(path) + asideInfix + "*") // the pattern is valid
	slices.Sort(all)
	for _, old := range all[:max(len(all)-maxAside, 0)] {
		_ = os.Remove(old)
	}
	syncDir(filepath.Dir(path))
	return filepath.Base(aside), nil
}

// escaped returns a glob pattern that matches only path.
func escaped(path string) string {
	return strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`).Replace(path)
}
