package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
)

// JobName is the name of the job of a child.
const JobName = "load"

// Serve is the job of the child.
func Serve(ctx context.Context, c *child.Conn) error {
	var r Request
	if err := c.Next(&r); err != nil {
		return err
	}
	j, ready, err := start(ctx, &r)
	if err != nil {
		return err
	}
	if err := c.Reply(ready); err != nil {
		return err
	}
	if r.Profiles == "" {
		return j.serve(ctx, c)
	}
	return profiled(&r, func() error { return j.serve(ctx, c) })
}

// serve makes a measurement for each request.
func (j *job) serve(ctx context.Context, c *child.Conn) error {
	for {
		var m Measure
		if err := c.Next(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		figures, err := j.measure(ctx, time.Duration(m.Seconds)*time.Second)
		if err != nil {
			return err
		}
		if err := c.Reply(figures); err != nil {
			return err
		}
	}
}

// job is a manager under load.
type job struct {
	request *Request
	subject manager
	period  time.Duration
	pods    []*v1.Pod
	attempt []bool // whether a probe makes attempts
	calls   *measure.Calls
	idle    int64 // resident bytes with the pods, before the manager was made

	recording atomic.Bool
	total     atomic.Int64 // calls while recording
}

func start(ctx context.Context, r *Request) (*job, *Ready, error) {
	j := &job{request: r, period: time.Duration(r.Period) * time.Second}
	empty, err := resident()
	if err != nil {
		return nil, nil, err
	}
	j.pods, j.attempt = makePods(r)
	withPods, err := resident()
	if err != nil {
		return nil, nil, err
	}
	j.calls = measure.NewCalls(len(j.attempt), r.MaxSeconds/r.Period+int(2*margin/j.period)+4)
	if j.idle, err = resident(); err != nil {
		return nil, nil, err
	}
	if j.subject, err = j.manager(ctx); err != nil {
		return nil, nil, err
	}
	if r.Late {
		if err := sleep(ctx, j.period+margin/4); err != nil {
			return nil, nil, err
		}
	}
	begin := time.Now()
	for i, pod := range j.pods {
		if err := j.subject.add(ctx, pod, i*len(j.attempt)/len(j.pods)); err != nil {
			return nil, nil, err
		}
	}
	added := time.Since(begin)
	if err := sleep(ctx, j.period+margin/4); err != nil { // time for the first ticks of all probes
		return nil, nil, err
	}
	resting, err := resident()
	if err != nil {
		return nil, nil, err
	}
	n := float64(len(j.attempt))
	ready := &Ready{Figures: map[string]record.Number{
		"probes": record.Number(n), "add-seconds": record.Number(added.Seconds()),
		"pod-bytes": record.Number(float64(withPods-empty) / n), "rest-bytes": record.Number(float64(resting-j.idle) / n),
		"idle-mb": record.Number(float64(j.idle) / (1 << 20)),
	}}
	if r.Scraped {
		ready.Metrics, err = j.subject.gather()
	}
	return j, ready, err
}

func (j *job) manager(ctx context.Context) (manager, error) {
	switch j.request.Subject {
	case Kubelet:
		return newKubelet(ctx, j.pods, j.run), nil
	case Prober:
		return newProber(ctx, j.request, j.pods, j.run)
	case Group, Unobserved:
		return newGroup(ctx, j.request.Subject == Group, j.run)
	default:
		return nil, fmt.Errorf("unknown subject %q", j.request.Subject)
	}
}

// run records a call, and does the work of an attempt.
func (j *job) run(ctx context.Context, probe int, timeout time.Duration) (failed bool) {
	if j.recording.Load() {
		j.calls.Record(probe)
		j.total.Add(1)
	}
	if probe >= j.request.Hanging {
		return false
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return true
}

// margin is how long calls are recorded before and after a measurement. A tick that has not begun after it
// counts as lost.
const margin = 2 * time.Second

func (j *job) measure(ctx context.Context, d time.Duration) (map[string]record.Number, error) {
	j.total.Load() // as at the end
	j.calls.Reset()
	j.recording.Store(true)
	if err := sleep(ctx, margin/4); err != nil {
		return nil, err
	}
	// The cost of reading them is outside of the window.
	ownBefore, err := j.subject.lags()
	if err != nil {
		return nil, err
	}
	before, err := take(j)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, d); err != nil {
		return nil, err
	}
	after, err := take(j)
	if err != nil {
		return nil, err
	}
	own, err := j.subject.lags()
	if err != nil {
		return nil, err
	}
	if after.resident, err = measure.Resident(0); err != nil {
		return nil, err
	}
	if err := sleep(ctx, margin); err != nil {
		return nil, err
	}
	j.recording.Store(false)
	if err := sleep(ctx, margin/10); err != nil { // time for running calls to end
		return nil, err
	}
	j.total.Load() // makes the calls that were recorded before each Add visible here
	figures := j.figures(before, after, d)
	if own != nil && j.request.Hanging == 0 { // otherwise the lags include hanging probes
		figures["own-p99-ms"] = record.Number(own.milliseconds(ownBefore, 0.99))
	}
	return figures, nil
}

// figures returns the figures of a measurement, without the lags of hanging probes. If a sleep took longer
// than d because all processors were busy, the window of the lags is still d, because calls are kept for d.
func (j *job) figures(before, after *snapshot, d time.Duration) map[string]record.Number {
	lags, expected := new(measure.Histogram), 0.0
	for i, attempts := range j.attempt {
		if !attempts {
			continue
		}
		expected++
		if i >= j.request.Hanging {
			j.calls.Lags(lags, i, j.period, before.at, before.at.Add(d))
		}
	}
	wall := after.at.Sub(before.at).Seconds()
	n, calls := float64(len(j.attempt)), float64(after.calls-before.calls)
	cpu := after.cpu - before.cpu
	figures := map[string]record.Number{
		"rate": record.Number(calls / wall), "expected-rate": record.Number(expected / j.period.Seconds()),
		"cpu-percent": record.Number(100 * cpu.Seconds() / wall), "cpu-us": record.Number(float64(cpu.Microseconds()) / max(calls, 1)),
		"run-bytes": record.Number(float64(after.resident-j.idle) / n), "run-mb": record.Number(float64(after.resident-j.idle) / (1 << 20)),
		"allocs": record.Number(float64(after.allocs-before.allocs) / max(calls, 1)), "collections": record.Number(after.collections - before.collections),
		"goroutines": record.Number(float64(runtime.NumGoroutine()) / n),
		"ticks":      record.Number(lags.Count()), "lost": record.Number(lags.Lost()),
	}
	if d >= 2*j.period { // a single call does not show when the probe was due
		for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "p999-ms": 0.999, "max-ms": 1} {
			figures[name] = record.Number(lags.Milliseconds(q))
		}
	}
	return figures
}

// snapshot has the counters of this process.
type snapshot struct {
	at                  time.Time
	cpu                 time.Duration
	calls               int64
	resident            int64 // only set at the end
	allocs, collections uint64
}

func take(j *job) (s *snapshot, err error) {
	s = new(snapshot)
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	s.allocs, s.collections = samples[0].Value.Uint64(), samples[1].Value.Uint64()
	s.calls = j.total.Load()
	if s.cpu, err = measure.CPU(); err != nil {
		return nil, err
	}
	s.at = time.Now()
	return s, nil
}

// resident returns the resident memory of this process after a garbage collection, in bytes.
func resident() (int64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	return measure.Resident(0)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve serves the metrics until the process ends.
func serve(h http.Handler) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		if err := http.Serve(l, h); err != nil {
			fmt.Fprintln(os.Stderr, "bench: error: metrics:", err)
		}
	}()
	return "http://" + l.Addr().String() + "/metrics", nil
}
