package history_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
)

// The states of a probe in one second, for a naive model.
const (
	secondAbsent = byte('-') // the agent is not running
	secondGone   = byte('x') // the probe does not exist
	secondUp     = byte('s')
	secondWarns  = byte('w')
	secondFails  = byte('f')
	secondBlank  = byte('u')
	secondSpared = byte('m')
)

// naive computes the item of a report from the state in each second. It shares no code with the store.
func naive(all []byte, from, to int) (text string) {
	counts := make(map[byte]int)
	type span struct{ start, end, took int }
	var spans []span
	open, quiet := false, 0
	for i := from; i < to; i++ {
		c := all[i]
		counts[c]++
		switch c {
		case secondFails:
			if open && quiet <= 600 {
				spans[len(spans)-1].end = i + 1
				spans[len(spans)-1].took++
			} else {
				spans = append(spans, span{i, i + 1, 1})
			}
			open, quiet = true, 0
		case secondUp, secondWarns, secondGone:
			open = false
		default:
			quiet++
		}
	}
	uptime := "-"
	if up, down := counts[secondUp]+counts[secondWarns], counts[secondFails]; up+down > 0 {
		uptime = fmt.Sprintf("%.9f", float64(up)/float64(up+down))
	}
	text = fmt.Sprintf("%s s%d w%d f%d u%d m%d n%d", uptime, counts[secondUp], counts[secondWarns], counts[secondFails], counts[secondBlank], counts[secondSpared], len(spans))
	for _, s := range slices.Backward(spans) {
		end := fmt.Sprint(s.end)
		if s.end == to {
			end = "lasts"
		}
		text += fmt.Sprintf(" [%d-%s %d]", s.start, end, s.took)
	}
	return text
}

// naiveParts computes the uptimes of n parts, which must divide the time.
func naiveParts(all []byte, n int) string {
	var parts []string
	for part := range slices.Chunk(all, len(all)/n) {
		up, down := bytes.Count(part, []byte{secondUp})+bytes.Count(part, []byte{secondWarns}), bytes.Count(part, []byte{secondFails})
		parts = append(parts, "-")
		if up+down > 0 {
			parts[len(parts)-1] = fmt.Sprintf("%.9f", float64(up)/float64(up+down))
		}
	}
	if strings.Trim(strings.Join(parts, ""), "-") == "" {
		return ""
	}
	return strings.Join(parts, " ")
}

// shownParts formats the parts of an item as naiveParts does.
func shownParts(i *api.ReportItem) string {
	var parts []string
	for _, p := range i.Parts {
		parts = append(parts, "-")
		if p != nil {
			parts[len(parts)-1] = fmt.Sprintf("%.9f", *p)
		}
	}
	return strings.Join(parts, " ")
}

// shown formats an item as naive does. Time 0 is start.
func shown(i *api.ReportItem, start time.Time) string {
	uptime := "-"
	if i.Uptime != nil {
		uptime = fmt.Sprintf("%.9f", *i.Uptime)
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s s%.0f w%.0f f%.0f u%.0f m%.0f n%d", uptime, i.Seconds.Success, i.Seconds.Warning, i.Seconds.Failure, i.Seconds.Unknown, i.Seconds.Maintenance, i.IncidentCount))
	for _, in := range i.Incidents {
		end := "lasts"
		if !in.End.IsZero() {
			end = fmt.Sprint(in.End.Sub(start).Seconds())
		}
		text.WriteString(fmt.Sprintf(" [%v-%s %v]", in.Start.Sub(start).Seconds(), end, in.DurationSeconds))
	}
	return text.String()
}

// act simulates a random life of one probe and restarts of its agent. It returns the state in each second.
func act(t *testing.T, r *rand.Rand, dir string, budget time.Duration) (all []byte, last *rig) {
	var a *rig
	var o interface{ Close() }
	of, generation := info("web", "0"), 0
	now, spared := secondAbsent, false
	begin := func() {
		generation++
		spared = false
		of = info("web", fmt.Sprint(generation))
		o, now = a.store.Observe(of), secondBlank
	}
	for len(all) < int(budget/time.Second) {
		switch n := r.IntN(100); {
		case a == nil:
			a = run(t, history.Config{StateDir: dir})
			begin()
		case n < 6: // the agent restarts
			a.stop()
			a, now = nil, secondAbsent
		case o == nil:
			begin()
		case n < 12:
			o.Close()
			o, now, spared = nil, secondGone, false
		case n < 24:
			spared = !spared
			a.store.Spare(&of, spared)
		default:
			next := []states.State{states.Success, states.Warning, states.Failure, states.Failure, states.Unknown}[r.IntN(5)]
			a.change(of, next, "")
			now = []byte{secondBlank, secondUp, secondWarns, secondFails}[next]
		}
		stay := 1 + int(math.Exp(r.Float64()*9.2)) // from a second to some hours
		time.Sleep(time.Duration(stay) * time.Second)
		counted := now
		if spared && now != secondAbsent {
			counted = secondSpared
		}
		for range stay {
			all = append(all, counted)
		}
	}
	if a == nil {
		a = run(t, history.Config{StateDir: dir})
		begin()
		time.Sleep(time.Second)
		all = append(all, secondBlank)
	}
	a.settle()
	if spared {
		now = secondSpared
	}
	return append(all, now), a
}

func TestReportMatchesNaiveModel(t *testing.T) {
	for seed := range uint64(some(10, 3)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				start := time.Now()
				all, a := act(t, r, dir, 3*24*time.Hour)
				for i := range 15 {
					from, to := r.IntN(len(all)), len(all)
					if i == 0 {
						from = 0
					} else if i%2 == 0 {
						to = from + 1 + r.IntN(len(all)-from)
					}
					want := naive(all, from, to)
					n := history.MaxParts
					for (to-from)%n != 0 {
						n--
					}
					var got string
					_, items := a.report(history.Query{
						Since: start.Add(time.Duration(from) * time.Second), Until: start.Add(time.Duration(to) * time.Second), Incidents: true, Parts: n,
					})
					if len(items) == 0 {
						items = []api.ReportItem{{}}
					}
					got = shown(&items[0], start)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("from %d to %d of %d: %s", from, to, len(all), diff)
					}
					if diff := cmp.Diff(naiveParts(all[from:to], n), shownParts(&items[0])); diff != "" {
						t.Fatalf("%d parts from %d to %d: %s", n, from, to, diff)
					}
					last := items[0]
					last.Parts = nil
					last.Incidents = last.Incidents[:min(len(last.Incidents), 1)]
					_, newest := a.report(history.Query{
						Since: start.Add(time.Duration(from) * time.Second), Until: start.Add(time.Duration(to) * time.Second), Incidents: true, Newest: true,
					})
					if len(newest) > 0 {
						if diff := cmp.Diff(last, newest[0]); diff != "" {
							t.Fatalf("the newest incident: %s", diff)
						}
					}
				}
			})
		})
	}
}

// A report whose incidents exceed the memory limit reads the history in several passes, with the same result.
func TestReportInSeveralPassesIsUnchanged(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.Config{StateDir: dir})
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 40 {
			r.store.Observe(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)))
		}
		for range 3000 {
			i := random.IntN(40)
			r.change(info(fmt.Sprintf("web-%02d", i), fmt.Sprint(i)), states.State(1+random.IntN(3)), "text")
			time.Sleep(10 * time.Second)
		}
		r.settle()
		until := time.Now()
		_, want := r.report(history.Query{Until: until, Incidents: true})
		incidents := 0
		for _, i := range want {
			if len(i.Incidents) != i.IncidentCount {
				t.Errorf("%d incidents of %d", len(i.Incidents), i.IncidentCount)
			}
			incidents += i.IncidentCount
		}
		if len(want) != 40 || incidents < 500 {
			t.Fatalf("%d items, %d incidents", len(want), incidents)
		}
		for _, most := range []int{1, 3000, 20_000} {
			r.store.SetMaxDetails(most)
			_, got := r.report(history.Query{Until: until, Incidents: true})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with %d bytes: %s", most, diff)
			}
		}
	})
}
