package incidents_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// watch returns a Watch of a fleet that keeps its incidents in a file.
func watch(f *atomic.Pointer[fleet], file string) *incidents.Watch {
	w := incidents.NewWatch(func() ([]incidents.Probe, iter.Seq[*incidents.Probe]) { return f.Load().split() })
	w.Open(file, slog.New(slog.DiscardHandler))
	return w
}

// Random lives go on after a restart as they would have without it.
func TestRestartContinuesIncidents(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			file := filepath.Join(t.TempDir(), "incidents.json")
			f := random(r, 60)
			for i := range f {
				f[i].Since = time.Now().Add(-time.Duration(r.IntN(300)) * time.Second)
			}
			var now atomic.Pointer[fleet]
			first := watch(&now, file)
			go first.Run(t.Context())
			go first.Save(t.Context())
			for range 30 {
				for range 1 + r.IntN(6) {
					p := &f[r.IntN(len(f))]
					if p.Since = time.Now(); fail(p) {
						p.State = states.Success
					} else {
						p.State = states.Failure
					}
				}
				next := slices.Clone(f)
				now.Store(&next)
				first.Wake()
				time.Sleep(time.Duration(1+r.IntN(100)) * time.Second)
			}
			time.Sleep(2 * time.Second)
			second := watch(&now, file)
			same := []cmp.Option{all, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })}
			if diff := cmp.Diff(first.Log().All(), second.Log().All(), same...); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
			later := time.Now().Add(time.Minute)
			for range 3 {
				f[r.IntN(len(f))].State = states.Failure
			}
			if diff := cmp.Diff(f.step(first.Log(), later).All(), f.step(second.Log(), later).All(), same...); diff != "" {
				t.Fatalf("seed %d: the next step: %s", seed, diff)
			}
		})
	}
}

// Probes that have not decided yet do not end the incidents of the agent before.
func TestIncidentsOutliveStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "incidents.json")
		var f atomic.Pointer[fleet]
		down := func() {
			all := fleet{}.add(3, "web", at("10.0.3.%d"), fails(probe.ReasonDeadline, "timed out"))
			for i := range all {
				all[i].Since = time.Now()
			}
			f.Store(&all)
		}
		down()
		begun := time.Now()
		first := watch(&f, file)
		ctx, end := context.WithCancel(t.Context())
		go first.Run(ctx)
		go first.Save(ctx)
		first.Wake()
		synctest.Wait()
		id := first.Log().All()[0].ID
		note := incidents.Note{Time: begin, By: "ops", Text: "the switch is being replaced"}
		if n, err := first.AddNote(id, note); err != nil || n.ID != id {
			t.Fatal(n, err)
		}
		first.Close()
		f.Store(new(fleet)) // the agent's probes end
		first.Wake()
		time.Sleep(time.Minute)
		if !first.Log().Open() {
			t.Error("the incident has ended with the agent")
		}
		end()
		synctest.Wait()
		second := watch(&f, file)
		go second.Run(t.Context())
		second.Wake()
		time.Sleep(20 * time.Second)
		down()
		second.Wake()
		time.Sleep(time.Minute)
		found := second.Log().All()
		if len(found) != 1 || found[0].ID != id || found[0].Failing != 3 || !found[0].Start.Equal(begun) || !slices.Equal(second.Notes(id), []incidents.Note{note}) {
			t.Errorf("%q, notes %+v", summary(found), second.Notes(id))
		}
		f.Store(new(fleet))
		second.Wake()
		time.Sleep(incidents.Keep + time.Hour)
		second.Wake()
		synctest.Wait()
		if len(second.Log().All()) > 0 || len(second.Notes(id)) > 0 {
			t.Errorf("%q, notes %+v", summary(second.Log().All()), second.Notes(id))
		}
	})
}

func TestNotesAreBounded(t *testing.T) {
	f := fleet{}.add(1, "web", fails(probe.ReasonDeadline, "timed out"))
	synctest.Test(t, func(t *testing.T) {
		w := incidents.NewWatch(func() ([]incidents.Probe, iter.Seq[*incidents.Probe]) { return f.split() })
		go w.Run(t.Context())
		w.Wake()
		synctest.Wait()
		if _, err := w.AddNote("none", incidents.Note{}); !errors.Is(err, incidents.ErrMissing) {
			t.Error(err)
		}
		id := w.Log().All()[0].ID
		for i := range incidents.MaxNotes + 1 {
			_, err := w.AddNote(id, incidents.Note{Text: fmt.Sprint(i)})
			if full := i == incidents.MaxNotes; errors.Is(err, incidents.ErrNotes) != full {
				t.Errorf("note %d: %v", i, err)
			}
		}
		if n := len(w.Notes(id)); n != incidents.MaxNotes {
			t.Errorf("%d notes", n)
		}
	})
}

// A file that is damaged, or not of this agent, loses the incidents and nothing else.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"incidents":[{}]}`, `{"version":1,"incidents":[{"ID":"x"}]}`, `{"version":1,"incidents":[{"ID":"x","Parts":[{}]}]}`, `[]`} {
		file := filepath.Join(t.TempDir(), "incidents.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := fleet{}.add(2, "web", fails(probe.ReasonDeadline, "timed out"))
		f.step(watch(nil, file).Log(), begin.Add(time.Minute))
	}
}

func TestOldIncidentsAreShort(t *testing.T) {
	f := fleet{}.add(100, "web", fails(probe.ReasonDeadline, "timed out"))
	now := begin.Add(time.Hour)
	log := nothing.step(f.step(new(incidents.Log), now), now)
	if log = nothing.step(log, now.Add(incidents.KeepParts)); len(log.All()[0].Parts) != 100 {
		t.Errorf("%d parts", len(log.All()[0].Parts))
	}
	if log = nothing.step(log, now.Add(incidents.KeepParts+1)); len(log.All()[0].Parts) != incidents.MaxOldParts || log.All()[0].Peak != 100 {
		t.Errorf("%d parts, %d at the peak", len(log.All()[0].Parts), log.All()[0].Peak)
	}
}
