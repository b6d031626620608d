package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
)

var threePods = []string{"a", "b", "c"}

// changes returns the changes since a time, sorted, as TIME POD FROM-TO TEXT.
func (r *rig) changes(since time.Time) (all []string) {
	r.t.Helper()
	q := history.ChangeQuery{Since: since, Until: time.Now(), Match: func(*history.Key) bool { return true }}
	err := r.store.Changes(r.t.Context(), &q, func(time.Time) error { return nil }, func(c *api.StateChange) error {
		all = append(all, fmt.Sprintf("%s %s %s-%s %s", c.Time.Format(time.DateTime), c.Pod, c.From, c.To, c.Text))
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// maintenance returns the states of all changes, and whether they are in maintenance.
func (r *rig) maintenance() string {
	r.t.Helper()
	var all []string
	q := history.ChangeQuery{Until: time.Now(), Match: func(*history.Key) bool { return true }}
	err := r.store.Changes(r.t.Context(), &q, func(time.Time) error { return nil }, func(c *api.StateChange) error {
		all = append(all, c.To)
		if c.Maintenance {
			all = append(all, "(maintenance)")
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// randomLife is the life of three probes over restarts of the agent.
type randomLife struct {
	*rand.Rand
	now      map[string]states.State
	happened []string // as [rig.changes] has them
}

// begin makes the probes of an agent that has just started, which decide their last states again.
func (l *randomLife) begin(r *rig, uid string) {
	for _, pod := range threePods {
		r.store.Observe(info(pod, pod+uid))
		if to := l.now[pod]; to != states.Unknown {
			r.store.Changed(&states.Change{Info: info(pod, pod+uid), To: to, Time: time.Now(), Cause: states.Cause{Text: "again"}})
		}
	}
}

// step changes the state of a probe, if it makes another one.
func (l *randomLife) step(r *rig, uid string) {
	pod := threePods[l.IntN(3)]
	from, to := l.now[pod], []states.State{states.Success, states.Warning, states.Failure}[l.IntN(3)]
	if from == to {
		return
	}
	text := fmt.Sprint(len(l.happened))
	r.store.Changed(&states.Change{Info: info(pod, pod+uid), From: from, To: to, Time: time.Now(), Cause: states.Cause{Text: text}})
	l.happened = append(l.happened, fmt.Sprintf("%s %s %v-%v %s", time.Now().Format(time.DateTime), pod, from, to, text))
	l.now[pod] = to
}

// The changes of random lives are the ones that happened, over windows and restarts of the agent. Those since
// a time begin with the states of that time.
func TestChangesAreThoseThatHappened(t *testing.T) {
	for seed := range uint64(4) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			l := randomLife{Rand: rand.New(rand.NewPCG(seed, 0)), now: make(map[string]states.State)}
			start := time.Now()
			want := []string{start.Format(time.DateTime) + " a absent-unknown ", start.Format(time.DateTime) + " b absent-unknown ", start.Format(time.DateTime) + " c absent-unknown "}
			var middle time.Time
			var since []string
			for n, uid := range []string{"1", "2", "3", "4"} {
				r := run(t, history.Config{StateDir: dir})
				l.begin(r, uid)
				for range 60 {
					time.Sleep(time.Duration(1+l.IntN(1200)) * time.Second)
					l.step(r, uid)
				}
				r.settle()
				if n == 2 {
					time.Sleep(time.Minute)
					middle = time.Now()
					for _, pod := range threePods {
						since = append(since, fmt.Sprintf("%s %s absent-%v", middle.Format(time.DateTime), pod, l.now[pod]))
					}
					want, l.happened = append(want, l.happened...), nil
				}
				if n < 3 {
					r.stop()
					time.Sleep(time.Duration(1+l.IntN(30)) * time.Minute)
					continue
				}
				got := r.changes(start)
				if want = append(want, l.happened...); !slices.Equal(got, want) {
					t.Errorf("seed %d:\ngot  %q\nwant %q", seed, got, want)
				}
				got = r.changes(middle)
				for i := range since {
					got[i] = got[i][:min(len(got[i]), len(since[i]))] // without the text
				}
				if want := append(since, l.happened...); !slices.Equal(got, want) {
					t.Errorf("seed %d: since %v\ngot  %q\nwant %q", seed, middle, got, want)
				}
			}
		})
	}
}

// A failure that goes on over windows of maintenance is listed with its begin, and a probe that disappears while the
// agent does not run ends.
func TestChangesOfLongFailure(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := run(t, history.Config{StateDir: dir})
		a, gone := info("a", "1"), info("gone", "2")
		for _, i := range []worker.Info{a, gone} {
			r.store.Observe(i)
			r.change(i, states.Failure, "down")
		}
		for range 3 {
			time.Sleep(20 * time.Hour)
			r.store.Spare(&a, true)
			time.Sleep(time.Hour)
			r.store.Spare(&a, false)
		}
		r.settle()
		r.stop()
		time.Sleep(10 * time.Minute)
		r = run(t, history.Config{StateDir: dir})
		a = info("a", "3")
		r.store.Observe(a)
		r.change(a, states.Failure, "down")
		time.Sleep(time.Hour)
		r.change(a, states.Success, "")
		r.settle()
		got := r.changes(start)
		want := []string{
			"2000-01-01 00:00:00 a absent-failure down", "2000-01-01 00:00:00 gone absent-failure down", "2000-01-03 15:00:01 gone failure-absent ", "2000-01-03 16:10:01 a failure-success ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		middle := start.Add(30 * time.Hour)
		got = r.changes(middle)
		want = []string{"2000-01-02 06:00:00 a absent-failure ", "2000-01-02 06:00:00 gone absent-failure ", "2000-01-03 15:00:01 gone failure-absent ", "2000-01-03 16:10:01 a failure-success "}
		if !slices.Equal(got, want) {
			t.Errorf("since the middle:\ngot  %q\nwant %q", got, want)
		}
	})
}
