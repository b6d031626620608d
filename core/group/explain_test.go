package group_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

// explained adds a probe with a period of one second and the given answers.
func explained(t *testing.T, g *group.Group[string], answer func(n int, trace probe.Tracer) (probe.Outcome, error)) group.ID[string] {
	t.Helper()
	p, n := newProbe(), 0
	p.Spec = probe.Spec{Period: time.Second}
	p.Handler = probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		if req.Attempt == 1 {
			n++
		}
		return answer(n, req.Trace)
	})
	p.Kind = probe.Liveness
	return add(t, g, "shop", p)
}

func TestExplainHasTicksWithTraces(t *testing.T) {
	bubble(t, "ticks", group.Config{History: 1 << 20}, func(t *testing.T, g *group.Group[string]) {
		connect := probe.TraceEvent{Type: probe.TracePhase, Name: "connect", Detail: "10.0.0.1:80", Duration: time.Millisecond}
		id := explained(t, g, func(n int, trace probe.Tracer) (probe.Outcome, error) {
			trace(probe.TraceEvent{Type: connect.Type, Name: connect.Name, Detail: connect.Detail, Duration: time.Millisecond})
			switch n {
			case 1:
				return probe.Outcome{Result: probe.Success, Output: "ok"}, nil
			case 2:
				return probe.Outcome{}, errors.New("no program")
			default:
				return probe.Outcome{Result: probe.Failure, Output: "refused", Reason: probe.ReasonConnectRefused}, nil
			}
		})
		wait(3 * time.Second)
		x, ok := g.Explain(id)
		if !ok || len(x.Ticks) != 4 || x.Last == nil || x.History != nil {
			t.Fatalf("%t, %+v", ok, x)
		}
		const want = "2 of 3 failures: the result stays success; one more makes it failure, which restarts the task; the next attempt is in "
		if !strings.HasPrefix(x.Summary, want) {
			t.Errorf("got  %s\nwant %s", x.Summary, want)
		}
		last := x.Ticks[0]
		if last.Output != "refused" || last.Reason != probe.ReasonConnectRefused || !last.Counted || last.CountedAs != "failure" ||
			last.Run != 2 || last.RunBefore != 1 || last.Threshold != 3 || last.Before != results.Success || last.After != results.Success {
			t.Errorf("the last tick %+v", last)
		}
		failed := x.Ticks[2]
		retry := func(n string) probe.TraceEvent {
			return probe.TraceEvent{Type: probe.TraceRetry, Name: n, Detail: "no program"}
		}
		if diff := cmp.Diff([]probe.TraceEvent{connect, retry("2"), connect, retry("3"), connect}, failed.Events); diff != "" || failed.Counted || failed.Error != "no program" {
			t.Errorf("%+v; events (-want +got):\n%s", failed, diff)
		}
		if first := x.Ticks[3]; first.Output != "ok" || cmp.Diff([]probe.TraceEvent{connect}, first.Events) != "" {
			t.Errorf("the first tick %+v", first)
		}
		if s, _ := g.Status(id); len(s.History) != 4 || s.History[3].Output != "ok" {
			t.Errorf("history %+v", s.History)
		}
	})
	bubble(t, "no such probe", group.Config{History: 1}, func(t *testing.T, g *group.Group[string]) {
		if x, ok := g.Explain(group.ID[string]{Key: "none"}); ok {
			t.Errorf("%+v", x)
		}
	})
	bubble(t, "without a history", group.Config{}, func(t *testing.T, g *group.Group[string]) {
		id := explained(t, g, func(_ int, trace probe.Tracer) (probe.Outcome, error) {
			if trace != nil {
				t.Error("the attempt is traced")
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		if x, ok := g.Explain(id); !ok || len(x.Ticks) != 0 || x.Last == nil {
			t.Errorf("%t, %+v", ok, x)
		}
	})
}

func TestTracesOfFailuresArePreferred(t *testing.T) {
	text := strings.Repeat("d", 100)
	for budget, want := range map[int64]string{
		1 << 20: "18 of 18 failures, 2 of 2 successes", // one probe has the whole budget
		18000:   "18 of 18 failures, 1 of 2 successes", // the last tick is always complete
		500:     "0 of 11 failures, 1 of 1 successes",
	} {
		bubble(t, fmt.Sprint("budget ", budget), group.Config{History: budget}, func(t *testing.T, g *group.Group[string]) {
			id := explained(t, g, func(n int, trace probe.Tracer) (probe.Outcome, error) {
				trace(probe.TraceEvent{Type: probe.TraceCall, Name: "read", Detail: text})
				trace(probe.TraceEvent{Type: probe.TraceCall, Name: "read", Detail: text})
				if n == 1 || n == 20 {
					return probe.Outcome{Result: probe.Success}, nil
				}
				return probe.Outcome{Result: probe.Warning}, nil
			})
			wait(19 * time.Second)
			x, _ := g.Explain(id)
			var whole, all [4]int
			for _, tick := range x.Ticks {
				all[tick.Result]++
				if len(tick.Events) == 2 {
					whole[tick.Result]++
				}
			}
			if got := fmt.Sprintf("%d of %d failures, %d of %d successes", whole[probe.Warning], all[probe.Warning], whole[probe.Success], all[probe.Success]); got != want {
				t.Errorf("traces of %s; want %s", got, want)
			}
		})
	}
}

func TestExplainOfSkippedTickAndNewContainer(t *testing.T) {
	bubble(t, "skipped", group.Config{History: 1 << 20}, func(t *testing.T, g *group.Group[string]) {
		id := explained(t, g, func(n int, _ probe.Tracer) (probe.Outcome, error) {
			if n == 2 {
				return probe.Outcome{}, probe.ErrNoSlot
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		want := func(text string) {
			t.Helper()
			if x, _ := g.Explain(id); !strings.HasPrefix(x.Summary, text) {
				t.Errorf("got  %s\nwant %s", x.Summary, text)
			}
		}
		want("1 of 1 success: the result stays success")
		wait(time.Second)
		want("the last tick was skipped, since the handler had no free slot")
		wait(time.Second)
		want("2 successes in a row: the result stays success")
		current, _ := g.Current(id)
		current.Task.SetState(worker.Running("other", time.Now()))
		want("2 successes in a row") // no tick has run yet
		if err := g.Pause(id); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		want("paused: the result stays success")
	})
}
