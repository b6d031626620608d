package scenario

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
)

const (
	readers = 10
	settle  = 2 * time.Second // time from the start of readers until ticks count
)

// stream measures how late readers of /api/v1/stream get a tick.
func stream() Scenario {
	return Scenario{
		Name: "stream", Title: "Ten readers of the stream of 10,000 probes", Rounds: 2, Seconds: 10,
		Text: "`prober run` with 10,000 HTTP probes of external targets at 10 s, without and with ten readers of /api/v1/stream in another process. " +
			"An update is late from the end of the attempt until a reader has found its fields. Readers first receive the present state of all probes (\"all probes after\"), then the newest state of each. Ticks count that end 2 s or more after they connect; one that does not reach every reader is lost.",
		Columns: []Column{{"present-ms", "all probes after ms"}, {"lost", "lost"}, {"p50-ms", "late p50 ms"}, {"p99-ms", "p99 ms"}, {"max-ms", "max ms"}, {"cpu-percent", "CPU %"}, {"rss-mb", "MB in all"}},
		Goals: []Goal{
			{Text: "p99 ≤ 0.5 s late", Figure: "p99-ms", Subject: proberRun, Params: param("readers", readers), AtMost: 500},
			{Text: "never more than 0.5 s late", Figure: "max-ms", Subject: proberRun, Params: param("readers", readers), AtMost: 500},
		},
		Run: func(ctx context.Context, e *Env) error {
			server, err := e.target(ctx)
			if err != nil {
				return err
			}
			n := e.size(10_000)
			const period = 10 // seconds
			for round := range e.Rounds {
				e.Logf("%s: %d probes, %d readers, round %d", proberRun, n, readers, round+1)
				a, err := e.startAgent(ctx, externalPods(server, n/2, 2, period), "")
				if err != nil {
					return err
				}
				err = pause(ctx, (period+2)*time.Second) // time for the first ticks of all probes
				for _, count := range []int{0, readers} {
					if err != nil {
						break
					}
					var figures map[string]record.Number
					if figures, err = e.read(ctx, a, count, n, period*time.Second); err == nil {
						e.emit(proberRun, round+1, param("readers", count), figures, nil)
					}
				}
				if err := errors.Join(err, a.close(), context.Cause(ctx)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// read measures an agent with n probes while readers read its stream.
func (e *Env) read(ctx context.Context, a *agent, count, n int, period time.Duration) (map[string]record.Number, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	pid, length := a.cmd.Process.Pid, time.Duration(e.Seconds)*time.Second
	before, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	// Ticks that end in the window count. Their updates may come up to two seconds later.
	begin := time.Now()
	start := begin.Add(settle)
	all := make([]follower, count)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = follower{start: start, end: start.Add(length), period: period, last: make(map[string]*time.Time, n)}
		wg.Go(func() { all[i].err = all[i].follow(reading, a.url+"/api/v1/stream") })
	}
	if err := pause(ctx, settle+length); err != nil {
		return nil, err
	}
	after, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	resident, err := measure.Resident(pid)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	stop()
	wg.Wait()
	late, present := new(measure.Histogram), 0.0
	for i := range all {
		if err := all[i].err; err != nil {
			return nil, fmt.Errorf("reader %d: %w", i, err)
		}
		present = max(present, all[i].presentAfter(begin, n))
		all[i].finish(n)
		late.Merge(&all[i].late)
	}
	figures := map[string]record.Number{
		"cpu-percent": record.Number(100 * (after - before).Seconds() / (settle + length).Seconds()),
		"rss-mb":      record.Number(float64(resident) / (1 << 20)),
	}
	if count > 0 {
		figures["present-ms"] = record.Number(present)
		figures["updates"], figures["lost"] = record.Number(late.Count()-late.Lost()), record.Number(late.Lost())
		figures["p50-ms"], figures["p99-ms"], figures["max-ms"] = record.Number(late.Milliseconds(0.5)), record.Number(late.Milliseconds(0.99)), record.Number(late.Milliseconds(1))
	}
	return figures, nil
}

// follower is a reader of the stream.
type follower struct {
	start, end time.Time // ticks that end in between count
	period     time.Duration
	late       measure.Histogram
	last       map[string]*time.Time // the last tick of each probe; a repeated one does not count
	newest     time.Time             // when the last new probe was seen
	key        []byte                // a buffer
	err        error
}

// follow reads until ctx ends.
func (f *follower) follow(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	isProbe := false
	for lines.Scan() {
		line := lines.Bytes()
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			isProbe = string(name) == "probe"
		} else if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && isProbe {
			// The last line may be incomplete when ctx ends.
			if err := f.update(data); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return cmp.Or(lines.Err(), errors.New("the agent has ended the stream"))
}

// update handles the state of a probe.
func (f *follower) update(data []byte) error {
	key, at, duration, err := parseTick(f.key[:0], data)
	if f.key = key; err != nil || at.IsZero() {
		return err
	}
	last := f.last[string(key)]
	if last == nil {
		last = new(time.Time)
		f.last[string(key)], f.newest = last, time.Now()
	}
	if last.Equal(at) {
		return nil
	}
	f.lose(*last, at.Add(-f.period/2))
	*last = at
	if ended := at.Add(duration); !ended.Before(f.start) && ended.Before(f.end) {
		f.late.Add(time.Since(ended))
	}
	return nil
}

// parseTick appends the identity of a probe to key, and returns the start and the duration of its last tick;
// the start is zero before the first tick. It searches for the fields in their order, because ten readers in
// one process would be late themselves with encoding/json. A quoted name before a colon is always a field,
// because quotes in JSON strings are escaped.
func parseTick(key, data []byte) (_ []byte, at time.Time, duration time.Duration, err error) {
	field := func(name string) (value []byte) {
		start := bytes.Index(data, []byte(name))
		if start < 0 {
			err = cmp.Or(err, fmt.Errorf("an update without %s: %.500s", name, data))
			return nil
		}
		data = data[start+len(name):]
		end := bytes.IndexAny(data, ",}")
		return data[:max(end, 0)]
	}
	for _, name := range []string{`"pod":`, `"container":`, `"kind":`} {
		key = append(append(key, field(name)...), '/')
	}
	if last := field(`"last":`); err != nil || string(last) == "null" {
		return key, at, 0, err
	}
	badTime := at.UnmarshalJSON(field(`"time":`))
	seconds, badSeconds := strconv.ParseFloat(string(field(`"durationSeconds":`)), 64)
	return key, at, time.Duration(seconds * 1e9), cmp.Or(err, badTime, badSeconds)
}

// lose counts lost ticks of a probe: ticks due in the window, after its tick at last and before until. It
// ignores a probe without an earlier tick.
func (f *follower) lose(last, until time.Time) {
	if last.IsZero() {
		return
	}
	for due := last.Add(f.period); due.Before(until) && due.Before(f.end); due = due.Add(f.period) {
		if !due.Before(f.start) {
			f.late.Lose(1)
		}
	}
}

// presentAfter returns the time from begin until all n probes were seen, in milliseconds; +Inf if some were
// not.
func (f *follower) presentAfter(begin time.Time, n int) float64 {
	if len(f.last) < n {
		return math.Inf(1)
	}
	return f.newest.Sub(begin).Seconds() * 1000
}

// finish counts the lost ticks of n probes at the end of the window, and all ticks of probes that were never
// seen.
func (f *follower) finish(n int) {
	for _, last := range f.last {
		f.lose(*last, f.end)
	}
	f.late.Lose(uint64(max(0, n-len(f.last))) * uint64(f.end.Sub(f.start)/f.period))
}
