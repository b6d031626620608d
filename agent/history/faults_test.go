package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/states"
	"github.com/daeace23/prober/probe"
)

// fullDisk is full, from an operation on and for some time. A write then writes a part.
type fullDisk struct {
	lazyDisk
	mu         sync.Mutex
	operations int
	from       int // -1: never
	lasts      time.Duration
	until      time.Time
}

// full counts an operation, and returns its error.
func (d *fullDisk) full() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.operations == d.from {
		d.until = time.Now().Add(d.lasts)
	}
	d.operations++
	if time.Now().Before(d.until) {
		return &fs.PathError{Op: "write", Path: "history", Err: syscall.ENOSPC}
	}
	return nil
}

func (d *fullDisk) MkdirAll(dir string) error {
	if err := d.full(); err != nil {
		return err
	}
	return d.lazyDisk.MkdirAll(dir)
}

func (d *fullDisk) Create(path string) (history.File, error) {
	if err := d.full(); err != nil {
		return nil, err
	}
	f, err := d.lazyDisk.Create(path)
	return &fullFile{f, d}, err
}

func (d *fullDisk) Append(path string) (history.File, error) {
	f, err := d.lazyDisk.Append(path)
	return &fullFile{f, d}, err
}

func (d *fullDisk) Rename(from, to string) error {
	if err := d.full(); err != nil {
		return err
	}
	return d.lazyDisk.Rename(from, to)
}

type fullFile struct {
	history.File
	disk *fullDisk
}

func (f *fullFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.full(); err != nil {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *fullFile) Sync() error {
	if err := f.disk.full(); err != nil {
		return err
	}
	return f.File.Sync()
}

// fullLife runs a store for nine hours on a disk, and returns its report, its log, and the log of an agent
// after it.
func fullLife(t *testing.T, dir string, disk *fullDisk) (item api.ReportItem, log string, troubled bool) {
	var text bytes.Buffer
	a := run(t, history.WithDisk(history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&text, nil))}, disk))
	web := info("web", "1")
	o := a.store.Observe(web)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		a.change(web, states.State(1+i%3), fmt.Sprint("text ", i))
		stay := time.Duration(r.IntN(1080)) * time.Second
		for range stay / (30 * time.Second) {
			time.Sleep(30 * time.Second)
			o.Tick(tick(probe.Success, time.Millisecond))
			troubled = troubled || len(a.store.Trouble()) > 0
		}
		time.Sleep(stay % (30 * time.Second))
	}
	a.settle()
	time.Sleep(6 * time.Minute) // compactions are tried again
	if trouble := a.store.Trouble(); trouble != nil {
		t.Errorf("afterwards: %q", trouble)
	}
	a.stop()
	b := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if trouble := b.store.Trouble(); trouble != nil {
		t.Errorf("the next agent: %q", trouble)
	}
	h, ok, err := b.store.Probe(t.Context(), key("web"), time.Now().Add(-24*time.Hour), time.Now())
	if err != nil || !ok || len(h.Points) < 200 {
		t.Errorf("%d points, %v", len(h.Points), err)
	}
	return b.only(), text.String(), troubled
}

func TestFullDiskLosesNothingThatMemoryHolds(t *testing.T) {
	never := &fullDisk{from: -1}
	var want api.ReportItem
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { want, _, _ = fullLife(t, dir, never) })
	if want.IncidentCount != 20 {
		t.Fatalf("%+v", want)
	}
	for from := 0; from < never.operations; from += 1 + from/12 {
		t.Run(fmt.Sprint("operation=", from), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				got, log, troubled := fullLife(t, dir, &fullDisk{from: from, lasts: 17 * time.Minute})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if n := strings.Count(log, "cannot be"); n != 1 || !troubled {
					t.Errorf("told %d times, %v:\n%s", n, troubled, log)
				}
			})
		})
	}
}

// A disk that stays full takes neither memory nor the states.
func TestDiskThatIsFullForLong(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := &fullDisk{from: 0, lasts: 40 * time.Hour}
		a := run(t, history.WithDisk(history.Config{StateDir: dir}, disk))
		r := rand.New(rand.NewPCG(1, 1))
		text := make([]byte, 200)
		for i := range 400 {
			web := info("web", "1")
			web.Pod, web.PodUID = fmt.Sprintf("web-%d", i), fmt.Sprint(i)
			a.store.Observe(web)
		}
		last := make([]states.State, 400)
		for range 200 {
			for i := range 400 {
				for k := range text {
					text[k] = byte(r.Uint32()) // which nothing compresses
				}
				web := info(fmt.Sprintf("web-%d", i), fmt.Sprint(i))
				last[i] = states.State(1 + r.IntN(3))
				a.change(web, last[i], string(text))
			}
			time.Sleep(10 * time.Minute)
		}
		if a.store.Dropped() == 0 || a.store.Bytes() > 0 || len(a.store.Trouble()) != 1 {
			t.Errorf("%d dropped, %d bytes, %q", a.store.Dropped(), a.store.Bytes(), a.store.Trouble())
		}
		time.Sleep(10 * time.Hour) // the disk has room again
		_, items := a.report(history.Query{Since: time.Now().Add(-2 * time.Hour)})
		for _, item := range items {
			var i int
			_, _ = fmt.Sscanf(item.Pod, "web-%d", &i)
			of := []float64{0, item.Seconds.Success, item.Seconds.Warning, item.Seconds.Failure}
			if of[last[i]] != 7200 {
				t.Errorf("%s was %s and is %+v", item.Pod, last[i], item.Seconds)
			}
		}
		if len(items) != 400 || a.store.Trouble() != nil {
			t.Errorf("%d items, %q", len(items), a.store.Trouble())
		}
	})
}

// store makes files: two blocks and a journal.
func makeFiles(t *testing.T, dir string) {
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		r := rand.New(rand.NewPCG(1, 1))
		observers := make(map[int]interface{ Close() })
		for i := range 40 {
			observers[i] = a.store.Observe(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)))
		}
		for range 10 * 60 {
			i := r.IntN(40)
			a.change(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)), states.State(1+r.IntN(3)), fmt.Sprint("text ", r.IntN(1000)))
			for i := range 40 {
				a.store.Observe(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i))).Tick(tick(probe.Success, time.Duration(r.IntN(1e9))))
			}
			time.Sleep(time.Minute)
		}
		a.settle()
	})
}

// damages are ways to damage a file.
var damages = map[string]func(r *rand.Rand, text []byte) []byte{
	"flip":     func(r *rand.Rand, text []byte) []byte { text[r.IntN(len(text))] ^= 1 << r.IntN(8); return text },
	"truncate": func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text))] },
	"zeros": func(r *rand.Rand, text []byte) []byte {
		at := r.IntN(len(text))
		clear(text[at:min(at+4096, len(text))])
		return text
	},
	"garbage": func(r *rand.Rand, text []byte) []byte {
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		return text
	},
	"twice": func(_ *rand.Rand, text []byte) []byte { return append(text, text...) },
}

func TestDamagedFilesAreSurvived(t *testing.T) {
	good := t.TempDir()
	makeFiles(t, good)
	files, err := os.ReadDir(filepath.Join(good, "history"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for name, damage := range damages {
		for seed := range uint64(15) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
					t.Fatal(err)
				}
				r := rand.New(rand.NewPCG(seed, 3))
				path := filepath.Join(dir, "history", files[r.IntN(len(files))].Name())
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				before := bytes.Clone(text)
				text = damage(r, text)
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) { survive(t, dir, path, !bytes.Equal(before, text)) })
			})
		}
	}
}

// survive runs an agent on files, one of which is damaged.
func survive(t *testing.T, dir, path string, changed bool) {
	time.Sleep(10*time.Hour + time.Minute) // since the files were made
	var log bytes.Buffer
	a := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	told := len(a.store.Trouble()) == 1 && strings.Contains(log.String(), filepath.Base(path))
	if journal := strings.HasSuffix(path, ".journal"); told != changed && !journal { // the end of a journal may be torn
		t.Errorf("told: %v, %q\n%s", told, a.store.Trouble(), log.String())
	}
	of := info("new", "new")
	a.store.Observe(of)
	a.change(of, states.Success, "")
	time.Sleep(5 * time.Hour)
	_, items := a.report(history.Query{Incidents: true})
	if len(items) != 41 { // each of the others is in a file that is whole
		t.Errorf("%d items", len(items))
	}
	for _, i := range items {
		if _, ok, err := a.store.Probe(t.Context(), key(i.Pod), time.Time{}, time.Now()); err != nil || !ok {
			t.Errorf("%s: %v, %v", i.Pod, ok, err)
		}
		if i.Pod == "new" && i.Seconds.Success < 5*3600 {
			t.Errorf("%+v", i)
		}
	}
	a.stop()
	again := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if trouble := again.store.Trouble(); len(trouble) > 0 && !strings.Contains(trouble[0], "later version") {
		t.Errorf("the next agent: %q", trouble)
	}
	_, next := again.report(history.Query{Incidents: true})
	if len(next) != len(items) {
		t.Errorf("the next agent has %d items", len(next))
	}
}

func TestFileOfALaterVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "history", "00000007.block")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("prober-history 12\nand more"), 0o600)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		want := []string{"00000007.block was written by a later version of prober, and is not read"}
		if got := a.store.Trouble(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		a.store.Observe(info("web", "1"))
		a.settle()
		a.only()
		a.stop()
	})
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "history", "00000008.journal")); err != nil {
		t.Error(err)
	}
}

func TestFewDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "history"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if err := os.WriteFile(filepath.Join(dir, "history", fmt.Sprintf("%08d.block", i+1)), []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		const want = "00000009.block is not a file of the history; it is kept as 00000009.block.corrupt-20000101T000000Z"
		if got := a.store.Trouble(); a.store.Errors() != 9 || !slices.Equal(got, []string{want}) {
			t.Errorf("%d errors, %q", a.store.Errors(), got)
		}
	})
	kept, err := filepath.Glob(filepath.Join(dir, "history", "*.block.corrupt-*"))
	if err != nil || len(kept) != 3 {
		t.Errorf("%q, %v", kept, err)
	}
}

func TestFolderThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "history"), nil, 0o600); err != nil { // a file is in its place
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		a.store.Observe(info("web", "1"))
		time.Sleep(time.Hour)
		if got := a.store.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "cannot be written since 2000-01-01T00:00:00Z: mkdir ") {
			t.Errorf("%q", got)
		}
		if err := os.Remove(filepath.Join(dir, "history")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if a.store.Trouble() != nil || a.only().Seconds.Unknown != 3660 {
			t.Errorf("%q", a.store.Trouble())
		}
	})
}

// A file that is damaged while the agent runs is found by the next report, and written anew.
func TestDamageIsFoundByReports(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := run(t, history.Config{StateDir: dir})
		a.store.Observe(info("web", "1"))
		a.change(info("web", "1"), states.Success, "")
		time.Sleep(9 * time.Hour)
		path := filepath.Join(dir, "history", "00000001.block")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(text[:len(text)-60], []byte("hr\x1eE")) // the last record of events
		text[at+20] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it is told once
			a.only()
		}
		want := []string{"00000001.block has records that cannot be read"}
		if got := a.store.Trouble(); !slices.Equal(got, want) || a.store.Errors() != 1 {
			t.Errorf("%q, %d errors", got, a.store.Errors())
		}
		time.Sleep(6 * time.Minute)
		if got := a.store.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "00000001.block damaged; it is kept as 00000001.block.corrupt-") {
			t.Errorf("%q", got)
		}
		errors := a.store.Errors()
		if a.only(); a.store.Errors() != errors {
			t.Error("it is still damaged")
		}
		time.Sleep(25 * time.Hour)
		if got := a.store.Trouble(); got != nil {
			t.Errorf("a day later: %q", got)
		}
	})
}
