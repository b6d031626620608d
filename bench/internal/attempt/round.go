package attempt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
)

// JobName is the name of the job of a child.
const JobName = "attempts"

// Request requests rounds of one kind at one concurrency.
type Request struct {
	Kind    string // http, https, tcp, grpc or exec
	C       int    // number of concurrent attempts
	Rounds  int
	Seconds float64 // duration of a round of one subject
	Ports   target.Ports
}

// Serve is the job of the child. Its answer is a list of runs.
func Serve(ctx context.Context, c *child.Conn) error {
	var r Request
	if err := c.Next(&r); err != nil {
		return err
	}
	subjects := SubjectsOf(r.Kind)
	all := make([]attempt, len(subjects))
	for i, name := range subjects {
		var err error
		if all[i], err = subject(name, r.Kind, r.Ports, r.C); err != nil {
			return err
		}
	}
	runs, err := alternate(ctx, subjects, all, r.C, r.Rounds, time.Duration(r.Seconds*float64(time.Second)))
	if err != nil {
		return err
	}
	return c.Reply(runs)
}

// alternate runs the subjects in turn. Every second round is in reverse order, so that no subject always
// follows the same other one.
func alternate(ctx context.Context, subjects []string, all []attempt, c, rounds int, d time.Duration) (runs []record.Run, err error) {
	goroutines := runtime.NumGoroutine()
	for i := range all {
		_, _ = round(ctx, all[i], c, d/5) // pools and stacks grow; an error comes again
	}
	for n := range rounds {
		for i := range subjects {
			at := i
			if n%2 == 1 {
				at = len(subjects) - 1 - i
			}
			settle(goroutines)
			figures, err := round(ctx, all[at], c, d)
			run := record.Run{Subject: subjects[at], Round: n + 1, Figures: figures}
			if err != nil {
				run.Error = err.Error()
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// settle waits until the goroutines of the last subject have ended, at most for half a second. Then it runs
// two garbage collections, because pools are freed by the second one.
func settle(goroutines int) {
	const pause = 20 * time.Millisecond
	for last, left := -1, 25; left > 0; left-- {
		n := runtime.NumGoroutine()
		if n <= goroutines || n == last {
			break
		}
		last = n
		time.Sleep(pause)
	}
	runtime.GC()
	runtime.GC()
}

// tolerated is the fraction of attempts that may fail in a round.
const tolerated = 0.01

// round makes attempts for d, c at a time. If too many fail, its error includes the first attempt's error.
func round(ctx context.Context, one attempt, c int, d time.Duration) (map[string]record.Number, error) {
	var (
		wg     sync.WaitGroup
		all    = make([][]time.Duration, c)
		failed atomic.Pointer[error]
		errs   atomic.Int64
	)
	before, err := counters()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for slot := range c {
		wg.Go(func() {
			took := make([]time.Duration, 0, 1024)
			for i := slot * 7919; ctx.Err() == nil; i++ {
				begin := time.Now()
				if begin.Sub(start) > d {
					break
				}
				if err := one(slot, i); err != nil {
					errs.Add(1)
					failed.CompareAndSwap(nil, &err)
				}
				took = append(took, time.Since(begin))
			}
			all[slot] = took
		})
	}
	wg.Wait()
	wall := time.Since(start)
	after, err := counters()
	if err != nil {
		return nil, err
	}
	took := slices.Concat(all...)
	if len(took) == 0 {
		return nil, errors.New("no attempt was made")
	}
	slices.Sort(took)
	n := float64(len(took))
	if share := float64(errs.Load()) / n; share > tolerated {
		return nil, fmt.Errorf("%.1f %% of the attempts failed: %w", 100*share, *failed.Load())
	}
	return map[string]record.Number{
		"attempts":     record.Number(n),
		"errors":       record.Number(errs.Load()),
		"rate":         record.Number(n / wall.Seconds()),
		"cpu-us":       record.Number(float64((after.cpu - before.cpu).Microseconds()) / n),
		"child-cpu-us": record.Number(float64((after.children - before.children).Microseconds()) / n),
		"allocs":       record.Number(float64(after.allocs-before.allocs) / n),
		"bytes":        record.Number(float64(after.bytes-before.bytes) / n),
		"goroutines":   record.Number((float64(after.goroutines-before.goroutines) - float64(c)) / n),
		"p50-us":       record.Number(took[len(took)/2].Seconds() * 1e6),
		"p99-us":       record.Number(took[len(took)*99/100].Seconds() * 1e6),
	}, nil
}

// counts are the counters of this process.
type counts struct {
	cpu, children             time.Duration
	allocs, bytes, goroutines uint64
}

func counters() (c counts, err error) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/sched/goroutines-created:goroutines"},
	}
	metrics.Read(samples)
	c.allocs, c.bytes, c.goroutines = samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	if c.children, err = measure.ChildrenCPU(); err != nil {
		return c, err
	}
	c.cpu, err = measure.CPU()
	return c, err
}
