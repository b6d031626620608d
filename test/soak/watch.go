//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// watch measures the agent and scrapes its metrics.
func (w *world) watch(ctx context.Context) {
	every(ctx, w.samplePeriod(), func(int) {
		s, err := w.agent.measure()
		if err != nil {
			w.failed("measure", err)
			return
		}
		begin := time.Now()
		m, err := w.agent.scrape(false)
		if err != nil {
			w.failed("scrape", err)
			return
		}
		took := time.Since(begin)
		s.addRuntime(m)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sizes = append(w.sizes, s)
		w.scraped = m
		w.scrapes = append(w.scrapes, took)
	})
}

// writeProfile writes a CPU profile of the agent, if -profile is set.
func (w *world) writeProfile(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(w.duration / 2):
	}
	if w.profile == "" {
		return
	}
	err := ask(w.agent.local, "http://localhost/debug/pprof/profile?seconds=20", func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return os.WriteFile(w.profile, text, 0o600)
	})
	if err != nil {
		w.failed("profile", err)
	}
}

// samplePeriod is 5 s, or shorter in a short soak.
func (w *world) samplePeriod() time.Duration {
	return max(time.Second, min(5*time.Second, w.duration/60))
}

// progress prints the state of the soak in one line.
func (w *world) progress() {
	t := w.ledger.tally(w.slack())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sizes) == 0 {
		return
	}
	s, lag := w.sizes[len(w.sizes)-1], w.scraped.lag.since(w.first.lag)
	fmt.Printf("%8v  %.0f probes, %.0f ticks, p99 lag %s, cpu %.2f, rss %s, heap %s, %.0f goroutines, %.0f descriptors; %d lost, %d doubled\n",
		time.Since(w.report.begin).Round(time.Second), w.scraped.values["prober_workers"], lag.total(), seconds(lag.quantile(0.99)),
		w.cpuLocked(), mib(s.rss), mib(s.heap), s.goroutines, s.fds, t.lost, t.doubled)
}

// cpuLocked returns how many processors the agent has used since the first sample.
func (w *world) cpuLocked() float64 {
	if len(w.sizes) < 2 {
		return 0
	}
	from, to := w.sizes[0], w.sizes[len(w.sizes)-1]
	return float64(to.cpu-from.cpu) / float64(to.at.Sub(from.at))
}

// slack is how late a tick may be without being counted as lost.
func (w *world) slack() time.Duration { return 3 * time.Second }

// growthLimit is a resource that may grow by the fraction relative of its median, plus absolute.
type growthLimit struct {
	name     string
	value    func(size) float64
	relative float64
	absolute float64
	format   func(float64) string
}

var resources = []growthLimit{
	{"memory (rss)", func(s size) float64 { return s.rss }, 0.1, 16 << 20, mib},
	{"heap in use", func(s size) float64 { return s.heap }, 0.1, 16 << 20, mib},
	{"goroutines", func(s size) float64 { return s.goroutines }, 0.1, 100, number},
	{"descriptors", func(s size) float64 { return s.fds }, 0.1, 100, number},
	{"threads", func(s size) float64 { return s.threads }, 0.1, 10, number},
}

// checkFlat checks that no resource grows after the first third.
func (w *world) checkFlat() {
	w.mu.Lock()
	sizes := w.sizes[len(w.sizes)/3:]
	w.mu.Unlock()
	if w.interrupted && len(sizes) < fewSizes {
		return
	}
	w.report.flat(sizes, resources)
}

// fewSizes is the least number of measurements from which growth is computed.
const fewSizes = 10

// flat adds the growth of resources, and a fault for each that grows by more than its limit.
func (r *report) flat(sizes []size, limits []growthLimit) {
	if len(sizes) < fewSizes {
		r.fault("%d measurements of resources: too few", len(sizes))
		return
	}
	span := sizes[len(sizes)-1].at.Sub(sizes[0].at)
	for _, g := range limits {
		at, values := make([]float64, len(sizes)), make([]float64, len(sizes))
		for i, s := range sizes {
			at[i], values[i] = s.at.Sub(sizes[0].at).Seconds(), g.value(s)
		}
		growth := slope(at, values) * span.Seconds()
		middle := median(values)
		limit := middle*g.relative + g.absolute
		r.add(g.name, "median %s, max %s; grows by %s in %v (tolerance %s)",
			g.format(middle), g.format(slices.Max(values)), g.format(growth), span.Round(time.Second), g.format(limit))
		if growth > limit {
			r.fault("%s grows by %s in %v, more than %s", g.name, g.format(growth), span.Round(time.Second), g.format(limit))
		}
	}
}

// slope returns the median of the slopes between all pairs of points (Theil and Sen): a few
// outliers do not move it.
func slope(x, y []float64) float64 {
	var all []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				all = append(all, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	return median(all)
}

// median returns the middle value, or 0 if there are no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

func number(n float64) string { return fmt.Sprintf("%.0f", n) }

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}

// durations is a sample of durations.
type durations []time.Duration

func (d durations) String() string {
	if len(d) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(d))
	at := func(part float64) time.Duration {
		return sorted[int(part*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d: median %v, 99%% %v, max %v", len(d), at(0.5), at(0.99), at(1))
}
