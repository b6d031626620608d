package history_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// limitFiles limits the size of files that this process writes. Writes beyond it fail as on a full disk.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = min(limit.Max, size)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}

// child runs the calling test in a child process, and reports whether this process is the child.
func child(t *testing.T) bool {
	const name = "PROBER_HISTORY_CHILD"
	if os.Getenv(name) == t.Name() {
		signal.Ignore(syscall.SIGXFSZ)
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), name+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func TestFullDiskKeepsPendingChanges(t *testing.T) {
	if !child(t) {
		return
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := run(t, history.Config{StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r := rand.New(rand.NewPCG(1, 1))
		observers := make([]interface{ Close() }, some(20, 12))
		for i := range observers {
			observers[i] = a.store.Observe(info(fmt.Sprintf("web-%d", i), fmt.Sprint(i)))
		}
		texts := make([]byte, 200)
		pass := func(hours int) {
			for range hours * 6 {
				for i := range observers {
					for k := range texts {
						texts[k] = byte(r.Uint32()) // incompressible
					}
					of := info(fmt.Sprintf("web-%d", i), fmt.Sprint(i))
					a.change(of, states.Failure, string(texts))
					o := a.store.Observe(of)
					o.Tick(tick(probe.Failure, time.Second))
					o.Close()
				}
				time.Sleep(5 * time.Minute)
				for i := range observers {
					a.change(info(fmt.Sprintf("web-%d", i), fmt.Sprint(i)), states.Success, "")
				}
				time.Sleep(5 * time.Minute)
			}
		}
		check := func(failures int) {
			t.Helper()
			_, items := a.report(history.Query{})
			for _, i := range items {
				if i.IncidentCount != failures || i.Seconds.Failure != float64(failures)*300 {
					t.Fatalf("%d incidents, %v s, want %d", i.IncidentCount, i.Seconds.Failure, failures)
				}
			}
			if len(items) != len(observers) {
				t.Fatalf("%d items", len(items))
			}
		}
		pass(3)
		check(18)
		limitFiles(t, uint64(a.store.FileSize()))
		pass(9) // a window closes and is folded
		if got := a.store.Trouble(); len(got) == 0 || !strings.HasPrefix(got[0], "cannot be written since ") || !strings.Contains(got[0], "file too large") {
			t.Errorf("%q", got)
		}
		_, items := a.report(history.Query{}) // it has less data, but works
		if len(items) != len(observers) || items[0].IncidentCount < 18 || a.store.Dropped() == 0 {
			t.Errorf("%d items, %d dropped", len(items), a.store.Dropped())
		}
		if s := items[0].Seconds; s.Success+s.Failure+s.Unknown > 6*3600 { // 9 of the 12 hours were not written
			t.Errorf("%+v are more than was written", s)
		}
		limitFiles(t, 1<<62)
		time.Sleep(10 * time.Minute)
		if got := a.store.Trouble(); got != nil {
			t.Errorf("%q", got)
		}
		check(72)
		pass(6)
		a.stop()
		a = run(t, history.Config{StateDir: dir})
		check(108)
		// A fold frees space for a few more commits, so there may be several outages in the nine hours.
		outages, ends := strings.Count(log.String(), "cannot be written"), strings.Count(log.String(), "is written again")
		if outages == 0 || outages > 4 || outages != ends || strings.Contains(log.String(), "damaged") {
			t.Errorf("told %d times, and %d ends:\n%s", outages, ends, log.String())
		}
	})
}

// A disk that is full from the start takes a bounded amount of memory, and the states are right afterwards.
func TestFullDiskFromStartBoundsMemory(t *testing.T) {
	if !child(t) {
		return
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		limitFiles(t, 0)
		a := run(t, history.Config{StateDir: dir})
		r := rand.New(rand.NewPCG(1, 1))
		text := make([]byte, 200)
		last := make([]states.State, 400)
		for i := range last {
			a.store.Observe(info(fmt.Sprintf("web-%d", i), fmt.Sprint(i)))
		}
		for range 200 {
			for i := range last {
				for k := range text {
					text[k] = byte(r.Uint32())
				}
				last[i] = states.State(1 + r.IntN(3))
				a.change(info(fmt.Sprintf("web-%d", i), fmt.Sprint(i)), last[i], string(text))
			}
			time.Sleep(10 * time.Minute)
		}
		if a.store.Dropped() == 0 || a.store.Bytes() > 0 || len(a.store.Trouble()) != 1 {
			t.Errorf("%d dropped, %d bytes, %q", a.store.Dropped(), a.store.Bytes(), a.store.Trouble())
		}
		limitFiles(t, 1<<62)
		time.Sleep(10 * time.Hour)
		_, items := a.report(history.Query{Since: time.Now().Add(-2 * time.Hour)})
		for _, item := range items {
			var i int
			_, _ = fmt.Sscanf(item.Pod, "web-%d", &i)
			of := []float64{0, item.Seconds.Success, item.Seconds.Warning, item.Seconds.Failure}
			if of[last[i]] != 7200 {
				t.Errorf("%s was %v and is %+v", item.Pod, last[i], item.Seconds)
			}
		}
		if len(items) != 400 || a.store.Trouble() != nil {
			t.Errorf("%d items, %q", len(items), a.store.Trouble())
		}
	})
}
