package group_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

// tickBytes is the encoded size of a past tick without its texts and its trace.
const tickBytes = 43

// traceBytes returns the size of the last tick's trace once it is a past tick. It is 0 if the trace is
// longer than a fourth of the budget, or for a success longer than an eightieth.
func traceBytes(t *testing.T, g *group.Group[string], id group.ID[string], budget int) int {
	t.Helper()
	x, ok := g.Explain(id)
	if !ok || len(x.Ticks) == 0 {
		t.Fatalf("no explanation: %+v", x)
	}
	last := x.Ticks[0]
	if len(last.Events) == 0 && last.Reason == "" {
		return 0
	}
	number := func(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }
	text := func(s string) int { return number(len(s)) + len(s) }
	n := text(string(last.Reason)) + number(int(last.Deferred)) + number(last.Dropped)
	for _, e := range last.Events {
		n += 1 + text(e.Name) + text(e.Detail) + number(int(e.Duration))
	}
	part := budget / 4
	if last.Result == probe.Success && last.Error == "" {
		part /= 20
	}
	if n+13 > part {
		return 0
	}
	return n
}

// keep is the model of a history: newest first, at most 20 ticks including the last. The last tick is
// always kept. The others fit into budget bytes, and the oldest successes are removed first. traces has the
// sizes of the traces by the times of their ticks.
func keep(all []group.TickStatus, last group.TickStatus, budget int, traces map[time.Time]int) []group.TickStatus {
	size := func() (n int) {
		for _, s := range all {
			n += tickBytes + len(s.Output) + len(s.Error) + traces[s.Time]
		}
		return n
	}
	for len(all) > 0 && (len(all) >= 20 || size() > budget) {
		oldest := len(all) - 1
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Result == probe.Success {
				oldest = i
				break
			}
		}
		all = slices.Delete(all, oldest, oldest+1)
	}
	return append([]group.TickStatus{last}, all...)
}

func TestHistory(t *testing.T) {
	for seed := range 30 {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		budget := 1 + random.IntN(6000)
		bubble(t, fmt.Sprintf("seed %d, budget %d", seed, budget), group.Config{History: int64(budget)}, func(t *testing.T, g *group.Group[string]) {
			var answers list[group.TickStatus]
			p := newProbe()
			p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				var err error
				s := group.TickStatus{Attempts: 1, Time: time.Now(), Output: strings.Repeat("o", random.IntN(400))}
				switch random.IntN(6) {
				case 0:
					s.Result = probe.Failure
				case 1:
					s.Error, s.Output, s.Attempts = strings.Repeat("e", 1+random.IntN(400)), "", 3
					err = errors.New(s.Error)
				case 2:
					s.Result = probe.Warning
				default:
					s.Result = probe.Success
				}
				answers.add(s)
				return probe.Outcome{Result: s.Result, Output: s.Output}, err
			})
			p.Spec.Period = time.Second
			id := add(t, g, "k", p)
			var want []group.TickStatus
			seen, traces := 0, make(map[time.Time]int)
			for range 60 {
				now := status(t, g, id)
				all := answers.get()
				last := all[len(all)-1]
				if len(all) == seen {
					t.Fatal("no tick")
				}
				seen = len(all)
				last.Attempts, last.Time = now.Last.Attempts, now.Last.Time
				if now.Last.Output != last.Output || now.Last.Error != last.Error || now.Last.Result != last.Result {
					t.Fatalf("last tick %+v, want %+v", now.Last, last)
				}
				last.Output, last.Error = last.Output[:min(len(last.Output), 256)], last.Error[:min(len(last.Error), 256)]
				for i := range now.History { // the texts of past ticks are truncated
					now.History[i].Error = now.History[i].Error[:min(len(now.History[i].Error), 256)]
				}
				traces[last.Time] = traceBytes(t, g, id, budget)
				want = keep(want, last, budget, traces)
				if diff := cmp.Diff(want, now.History); diff != "" {
					t.Fatalf("after %d attempts (-want +got):\n%s", seen, diff)
				}
				wait(time.Second)
			}
		})
	}
	bubble(t, "without a budget only the last tick is kept, with 256 bytes", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{
				Result: probe.Success, Output: strings.Repeat("x", 1000), Details: `{"a":1}`, Metrics: []probe.Metric{{Name: "n", Value: 1}},
			}, nil
		})
		s := status(t, g, add(t, g, "k", p))
		if len(s.History) != 0 || len(s.Last.Output) != 256 || s.Last.Details != "" || len(s.Last.Metrics) != 1 {
			t.Errorf("%+v", s)
		}
	})
	bubble(t, "details and metrics are those of the last tick", group.Config{History: 10000}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Result: probe.Success, Details: `{"a":1}`, Metrics: []probe.Metric{{Name: "n", Value: 1}}}, nil
		})
		p.Spec.Period = time.Second
		id := add(t, g, "k", p)
		wait(2 * time.Second)
		s := status(t, g, id)
		if string(s.Last.Details) != `{"a":1}` || len(s.Last.Metrics) != 1 || len(s.History) < 2 || s.History[1].Metrics != nil || s.History[1].Details != "" {
			t.Errorf("%+v", s)
		}
	})
	bubble(t, "the budget is shared by all probes", group.Config{History: 4000}, func(t *testing.T, g *group.Group[string]) {
		p := newProbe()
		p.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Result: probe.Success, Output: strings.Repeat("x", 200-tickBytes)}, nil
		})
		p.Spec.Period = time.Second
		id := add(t, g, "k", p)
		wait(30 * time.Second)
		if n := len(status(t, g, id).History); n != 20 {
			t.Errorf("alone: %d ticks", n)
		}
		for i := range 3 {
			p := newProbe()
			p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
			add(t, g, fmt.Sprint(i), p)
		}
		wait(time.Second)
		if n := len(status(t, g, id).History); n != 6 { // 1000 bytes: five ticks of 200 bytes, and the last
			t.Errorf("one of four: %d ticks", n)
		}
	})
}
