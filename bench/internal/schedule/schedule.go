// Package schedule measures two designs of a schedule, with ticks that do nothing: a goroutine with a ticker
// for each probe, as in the kubelet, and one heap for each processor. A manager does more work for each tick,
// so the better of the two is a limit for managers.
package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
)

// JobName is the name of the job of a child.
const JobName = "schedule"

// The designs.
const (
	Ticker = "goroutine and ticker"
	Heap   = "bare heap"
)

// Request requests one measurement.
type Request struct {
	Design string
	Probes int
	Period time.Duration
	Length time.Duration
}

// Serve is the job of the child: the answer is a map of figures.
func Serve(ctx context.Context, c *child.Conn) error {
	var r Request
	if err := c.Next(&r); err != nil {
		return err
	}
	figures, err := run(ctx, &r)
	if err != nil {
		return err
	}
	return c.Reply(figures)
}

// lags has the histograms of one goroutine, or of a group of goroutines.
type lags struct {
	mu         sync.Mutex
	h          measure.Histogram
	start, end time.Time // only ticks that are due in between count
}

func (l *lags) add(due, now time.Time) {
	if due.Before(l.start) || !due.Before(l.end) {
		return
	}
	l.mu.Lock()
	l.h.Add(now.Sub(due))
	l.mu.Unlock()
}

// shares is the number of histograms. It is high enough that goroutines seldom wait for each other.
const shares = 64

func run(ctx context.Context, r *Request) (map[string]record.Number, error) {
	runtime.GC()
	idle, err := measure.Resident(0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The first ticks are spread over the period after the probes are made.
	base := time.Now().Add(100*time.Millisecond + time.Duration(r.Probes)*2*time.Microsecond)
	start := base.Add(r.Period * 3 / 2)
	all := make([]lags, shares)
	for i := range all {
		all[i].start, all[i].end = start, start.Add(r.Length)
	}
	switch r.Design {
	case Ticker:
		for i := range r.Probes {
			first := base.Add(rand.N(r.Period))
			go tick(ctx, first, r.Period, &all[i%shares])
		}
	case Heap:
		processors := runtime.GOMAXPROCS(0)
		for p := range processors {
			go runHeap(ctx, newHeap(r.Probes/processors, base, r.Period), r.Period, &all[p])
		}
	default:
		return nil, fmt.Errorf("unknown design %q", r.Design)
	}
	if err := until(ctx, start); err != nil {
		return nil, err
	}
	before, err := measure.CPU()
	if err != nil {
		return nil, err
	}
	if err := until(ctx, start.Add(r.Length)); err != nil {
		return nil, err
	}
	after, err := measure.CPU()
	if err != nil {
		return nil, err
	}
	used, err := measure.Resident(0)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, start.Add(r.Length+2*time.Second)); err != nil { // a tick that has not begun by then is lost
		return nil, err
	}
	cancel()
	return figures(r, all, after-before, used-idle), nil
}

func figures(r *Request, all []lags, cpu time.Duration, bytes int64) map[string]record.Number {
	sum := new(measure.Histogram)
	for i := range all {
		all[i].mu.Lock()
		sum.Merge(&all[i].h)
		all[i].mu.Unlock()
	}
	expected := uint64(float64(r.Probes) * r.Length.Seconds() / r.Period.Seconds())
	ran := sum.Count()
	if ran < expected {
		sum.Lose(expected - ran)
	}
	return map[string]record.Number{
		"rate": record.Number(float64(ran) / r.Length.Seconds()), "run-bytes": record.Number(float64(bytes) / float64(r.Probes)),
		"run-mb":      record.Number(float64(bytes) / (1 << 20)),
		"cpu-percent": record.Number(100 * cpu.Seconds() / r.Length.Seconds()), "cpu-us": record.Number(float64(cpu.Microseconds()) / max(float64(ran), 1)),
		"ticks": record.Number(sum.Count()), "lost": record.Number(sum.Lost()),
		"p50-ms": record.Number(sum.Milliseconds(0.5)), "p99-ms": record.Number(sum.Milliseconds(0.99)), "max-ms": record.Number(sum.Milliseconds(1)),
	}
}

func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tick is the goroutine of one probe, with a ticker. If it is too slow, the ticker drops ticks.
func tick(ctx context.Context, first time.Time, period time.Duration, l *lags) {
	if until(ctx, first) != nil {
		return
	}
	start := time.Now() // the first tick is due a period later
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			// The ticker fires at start + n periods; the channel holds the time when it fired.
			due := start.Add(now.Sub(start).Round(period))
			l.add(due, time.Now())
		}
	}
}

// entry is a probe in a heap.
type entry struct {
	due   int64 // nanoseconds after the base
	probe uint32
}

type heap struct {
	base    time.Time
	entries []entry // 4-ary, the earliest first
}

func newHeap(n int, base time.Time, period time.Duration) *heap {
	h := &heap{base: base, entries: make([]entry, n)}
	for i := range h.entries {
		h.entries[i] = entry{due: rand.Int64N(int64(period)), probe: uint32(i)}
	}
	for i := (n - 2) / 4; i >= 0; i-- {
		h.down(i)
	}
	return h
}

// down moves entry i down to its position in the heap.
func (h *heap) down(i int) {
	e, x := h.entries, h.entries[i]
	for {
		least, first := i, 4*i+1
		due := x.due
		for c := first; c < min(first+4, len(e)); c++ {
			if e[c].due < due {
				least, due = c, e[c].due
			}
		}
		if least == i {
			break
		}
		e[i] = e[least]
		i = least
	}
	e[i] = x
}

// runHeap runs the due ticks, and then sleeps for at least half a millisecond, because ticks need no higher
// precision.
func runHeap(ctx context.Context, h *heap, period time.Duration, l *lags) {
	const pause = 500 * time.Microsecond
	for len(h.entries) > 0 {
		now := time.Now()
		passed := int64(now.Sub(h.base))
		for h.entries[0].due <= passed {
			l.add(h.base.Add(time.Duration(h.entries[0].due)), now)
			h.entries[0].due += int64(period)
			h.down(0)
		}
		next := h.base.Add(time.Duration(h.entries[0].due))
		if earliest := now.Add(pause); next.Before(earliest) {
			next = earliest
		}
		if until(ctx, next) != nil {
			return
		}
	}
}
