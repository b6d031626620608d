package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// file returns the path of the database below a state directory.
func file(dir string) string { return filepath.Join(dir, "history", "history.db") }

// asides returns the names of the renamed, damaged databases.
func asides(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(file(dir) + ".corrupt-*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// contents returns the report and the points of all probes.
func (r *rig) contents() (items []api.ReportItem, points map[string][]api.HistoryPoint) {
	r.t.Helper()
	_, items = r.report(history.Query{Incidents: true, Until: epoch.Add(10 * time.Hour)})
	points = make(map[string][]api.HistoryPoint)
	for _, i := range items {
		h, ok, err := r.store.Probe(r.t.Context(), key(i.Pod), epoch, epoch.Add(10*time.Hour))
		if err != nil || !ok {
			r.t.Fatal(i.Pod, ok, err)
		}
		points[i.Pod] = h.Points
	}
	return items, points
}

// epoch is the time at which a synctest bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// makeDatabase creates a database of ten hours: two folded windows and one that is not folded.
func makeDatabase(t *testing.T, dir string) (items []api.ReportItem, points map[string][]api.HistoryPoint) {
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 40 {
			a.store.Observe(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)))
		}
		for range 10*60 + 5 {
			i := r.IntN(40)
			a.change(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)), states.State(1+r.IntN(3)), fmt.Sprint("text ", r.IntN(1000)))
			for i := range 40 {
				o := a.store.Observe(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)))
				o.Tick(tick(probe.Success, time.Duration(r.IntN(1e9))))
				o.Close()
			}
			time.Sleep(time.Minute)
		}
		a.settle()
		items, points = a.contents()
	})
	return items, points
}

// damages maps names to ways to damage a file.
var damages = map[string]func(r *rand.Rand, text []byte) []byte{
	"bits": func(r *rand.Rand, text []byte) []byte {
		for range 1 + r.IntN(20) {
			text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		}
		return text
	},
	"headers": func(r *rand.Rand, text []byte) []byte { // of pages and their elements
		for range 1 + r.IntN(4) {
			text[r.IntN(len(text)/4096)*4096+r.IntN(64)] = byte(r.Uint32())
		}
		return text
	},
	"truncate": func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text))] },
	"zeros": func(r *rand.Rand, text []byte) []byte {
		at := r.IntN(len(text))
		clear(text[at:min(at+1+r.IntN(8192), len(text))])
		return text
	},
	"swap": func(r *rand.Rand, text []byte) []byte {
		a, b := r.IntN(len(text)/4096)*4096, r.IntN(len(text)/4096)*4096
		page := bytes.Clone(text[a : a+4096])
		copy(text[a:a+4096], text[b:b+4096])
		copy(text[b:b+4096], page)
		return text
	},
	"garbage": func(r *rand.Rand, text []byte) []byte {
		at := 0
		if r.IntN(2) == 0 {
			at = r.IntN(len(text))
		}
		for i := range text[at:] {
			text[at+i] = byte(r.Uint32())
		}
		return text
	},
}

// A report of a damaged database returns an error or the same data as before the damage.
func TestDamagedDatabaseIsReplaced(t *testing.T) {
	good := t.TempDir()
	items, points := makeDatabase(t, good)
	text, err := os.ReadFile(file(good))
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(some(15, 3)) {
				dir := t.TempDir()
				bad := damage(rand.New(rand.NewPCG(seed, 3)), bytes.Clone(text))
				if err := errors.Join(os.Mkdir(filepath.Dir(file(dir)), 0o700), os.WriteFile(file(dir), bad, 0o600)); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) { survive(t, dir, items, points) })
				if t.Failed() {
					t.Fatal("seed ", seed)
				}
				moved += len(asides(t, dir))
			}
		})
	}
	if moved == 0 {
		t.Error("no damage was found")
	}
}

// survive runs an agent on a damaged database, and then a second one.
func survive(t *testing.T, dir string, items []api.ReportItem, points map[string][]api.HistoryPoint) {
	time.Sleep(10*time.Hour + 30*time.Minute) // since the database was made
	var log bytes.Buffer
	a := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	web := info("new", "new")
	a.store.Observe(web)
	a.change(web, states.Success, "")
	a.settle()
	a.compare(items, points)
	time.Sleep(9 * time.Hour) // it folds
	a.compare(items, points)
	moved := len(asides(t, dir)) > 0
	told := len(a.store.Trouble()) > 0 && strings.Contains(a.store.Trouble()[0], "history.db is damaged: ") && strings.Contains(log.String(), "a new database begins")
	if moved != told {
		t.Errorf("moved aside %v, told %v: %q", moved, told, a.store.Trouble())
	}
	_, now := a.report(history.Query{Since: time.Now().Add(-8 * time.Hour)})
	i := len(now) - 1
	for i > 0 && now[i].Pod != "new" {
		i--
	}
	if i < 0 || now[i].Seconds.Success != 8*3600 {
		t.Errorf("%+v", now)
	}
	a.stop()
	b := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if trouble := b.store.Trouble(); trouble != nil {
		t.Errorf("the next agent: %q", trouble)
	}
	_, next := b.report(history.Query{Since: time.Now().Add(-8 * time.Hour)})
	if len(next) != len(now) {
		t.Errorf("the next agent has %d items", len(next))
	}
}

// compare fails if data differ from the data before the damage. Missing data pass: if the key of a probe's
// points is damaged, there seem to be none.
func (r *rig) compare(items []api.ReportItem, points map[string][]api.HistoryPoint) {
	r.t.Helper()
	q := history.Query{Incidents: true, Until: epoch.Add(10 * time.Hour), Match: func(*history.Key) bool { return true }}
	var got []api.ReportItem
	err := r.store.Report(r.t.Context(), &q, func(*history.Page) error { return nil }, func(i *api.ReportItem) error { got = append(got, *i); return nil })
	if err == nil && len(got) > 0 && !cmp.Equal(items, got) {
		r.t.Errorf("wrong items: %s", cmp.Diff(items, got))
	}
	for pod, want := range points {
		synctest.Wait() // a new database replaces it
		h, _, err := r.store.Probe(r.t.Context(), key(pod), epoch, epoch.Add(10*time.Hour))
		if err != nil {
			continue
		}
		for _, p := range h.Points {
			if !slices.Contains(want, p) {
				r.t.Errorf("wrong point of %s: %+v", pod, p)
			}
		}
	}
}

// Damage of the open database is handled too. The file is mapped, so readers see it at once.
func TestDamageOfOpenDatabaseIsHandled(t *testing.T) {
	for name, damage := range map[string]func(f *os.File, size int64) error{
		"truncated":  func(f *os.File, _ int64) error { return f.Truncate(4096) }, // every access faults
		"empty":      func(f *os.File, _ int64) error { return f.Truncate(0) },
		"meta pages": func(f *os.File, _ int64) error { _, err := f.WriteAt(make([]byte, 8192), 0); return err },
		"other pages": func(f *os.File, size int64) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size-8192)), 8192)
			return err
		},
	} {
		for _, first := range []string{"reader", "writer"} {
			t.Run(name+"/"+first, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					a := run(t, history.Config{StateDir: dir})
					web := info("web", "1")
					o := a.store.Observe(web)
					a.change(web, states.Success, "")
					time.Sleep(5*time.Hour + 10*time.Second)
					damageFile(t, file(dir), damage)
					if first == "reader" {
						q := history.Query{Until: time.Now(), Match: func(*history.Key) bool { return true }}
						err := a.store.Report(t.Context(), &q, func(*history.Page) error { return nil }, func(*api.ReportItem) error { return nil })
						if err == nil || !strings.HasPrefix(err.Error(), "is damaged: ") {
							t.Errorf("a report of it: %v", err)
						}
					}
					a.change(web, states.Failure, "after the damage")
					o.Tick(tick(probe.Failure, time.Second))
					time.Sleep(time.Hour)
					if got, want := words(new(a.only())), "failure 3600"; !strings.Contains(got, want) || !strings.Contains(got, "after the damage") {
						t.Errorf("got %s, want %s", got, want)
					}
					if trouble := a.store.Trouble(); len(trouble) != 1 || !strings.HasPrefix(trouble[0], "history.db is damaged: ") || len(asides(t, dir)) != 1 {
						t.Errorf("%q, %q", trouble, asides(t, dir))
					}
				})
			})
		}
	}
}

func damageFile(t *testing.T, path string, damage func(*os.File, int64) error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = damage(f, info.Size())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileThatIsNoHistoryIsReplaced(t *testing.T) {
	other := func(path string, fill func(*bbolt.Tx) error) error {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		return errors.Join(db.Update(fill), db.Close())
	}
	for name, make := range map[string]func(path string) error{
		"text": func(path string) error { return os.WriteFile(path, []byte("not a database"), 0o600) },
		"another database": func(path string) error {
			return other(path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("key")); return err })
		},
		"no version": func(path string) error {
			return other(path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("meta")); return err })
		},
		"no buckets": func(path string) error {
			return other(path, func(tx *bbolt.Tx) error { return version(tx, "1") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for n := range 6 {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file(dir)), 0o700), os.RemoveAll(file(dir)), make(file(dir))); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Duration(n) * time.Hour)
					a := run(t, history.Config{StateDir: dir})
					a.store.Observe(info("web", "1"))
					time.Sleep(time.Hour)
					if a.only().Seconds.Unknown != 3600 || len(a.store.Trouble()) != 1 {
						t.Errorf("%+v, %q", a.only(), a.store.Trouble())
					}
				})
				if got := len(asides(t, dir)); got != min(n+1, 3) {
					t.Errorf("%d are kept", got)
				}
			}
		})
	}
}

func version(tx *bbolt.Tx, text string) error {
	meta, err := tx.CreateBucket([]byte("meta"))
	if err != nil {
		return err
	}
	return meta.Put([]byte("version"), []byte(text))
}

func TestDatabaseOfLaterVersionIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Dir(file(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(file(dir), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bbolt.Tx) error { return version(tx, "2") }), db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file(dir))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		o := a.store.Observe(info("web", "1"))
		a.change(info("web", "1"), states.Success, "")
		for range 10 {
			o.Tick(tick(probe.Success, time.Second))
			time.Sleep(time.Hour)
		}
		if got, want := a.store.Trouble(), "history.db was written by a later version of prober; nothing is recorded"; len(got) != 1 || got[0] != want {
			t.Errorf("%q", got)
		}
		if _, items := a.report(history.Query{}); len(items) > 0 || a.store.Dropped() != 0 {
			t.Errorf("%+v, %d dropped", items, a.store.Dropped())
		}
	})
	if after, err := os.ReadFile(file(dir)); err != nil || !bytes.Equal(before, after) {
		t.Error("it has changed", err)
	}
}

func TestFolderThatCannotBeCreated(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "history"), nil, 0o600); err != nil { // a file is in its place
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		a.store.Observe(info("web", "1"))
		time.Sleep(time.Hour)
		if got := a.store.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "cannot be written since 2000-01-01T00:00:00Z: ") || !strings.Contains(got[0], "not a directory") {
			t.Errorf("%q", got)
		}
		if err := os.Remove(filepath.Join(dir, "history")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second) // half a minute off the full minute, at which it retries
		if got := a.only().Seconds.Unknown; a.store.Trouble() != nil || got != 3690 {
			t.Errorf("%q, %v s", a.store.Trouble(), got)
		}
	})
}

// The budget bounds the bytes in use; the file is little larger.
func TestBudgetBoundsTheFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := run(t, history.Config{StateDir: dir, Budget: history.MinBudget, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r := rand.New(rand.NewPCG(1, 1))
		const probes = 1000
		observers := make([]interface{ Close() }, probes)
		texts := make([]byte, 200)
		for i := range observers {
			observers[i] = a.store.Observe(info(fmt.Sprintf("web-%03d", i), fmt.Sprint(i)))
		}
		var largest int64
		for range some(4, 2) * 24 * 60 {
			for range 60 { // changes with incompressible texts
				for k := range texts {
					texts[k] = byte(r.Uint32())
				}
				i := r.IntN(probes)
				a.change(info(fmt.Sprintf("web-%03d", i), fmt.Sprint(i)), states.State(1+r.IntN(3)), string(texts))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			info, err := os.Stat(file(dir))
			if err != nil {
				t.Fatal(err)
			}
			largest = max(largest, info.Size())
			if a.store.Bytes() > history.MinBudget+1<<20 {
				t.Fatalf("%d bytes are in use", a.store.Bytes())
			}
		}
		oldest := time.Since(a.store.Oldest())
		t.Logf("the file had up to %.1f MiB, the history goes back %v", float64(largest)/(1<<20), oldest)
		if largest > a.store.MaxSize() || oldest < 4*time.Hour || oldest > 3*24*time.Hour || strings.Count(log.String(), "does not fit its budget") != 1 {
			t.Errorf("%d bytes, %v, log:\n%s", largest, oldest, log.String())
		}
		if a.store.Errors() != 0 || a.store.Dropped() != 0 {
			t.Errorf("%d errors, %d dropped, %q, log:\n%s", a.store.Errors(), a.store.Dropped(), a.store.Trouble(), log.String())
		}
	})
}

// A reader that pauses in the middle of a report holds no lock that the writer needs.
func TestPausedReaderDoesNotBlockWriter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		a.store.Observe(info("web", "1"))
		a.settle()
		q := history.Query{Until: time.Now(), Match: func(*history.Key) bool { return true }}
		err := a.store.Report(context.Background(), &q, func(*history.Page) error { return nil }, func(*api.ReportItem) error {
			a.change(info("web", "1"), states.Failure, "meanwhile")
			time.Sleep(time.Hour)
			if got := words(new(a.only())); !strings.Contains(got, "failure 3600") {
				t.Error(got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
