//go:build soak

package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// watch records false results, and the size of the agent.
type watch struct {
	agent           *agent
	begin           time.Time
	healthy, faulty int // probes

	mu       sync.Mutex
	known    map[string]string // containers that were well, by probe
	failures map[string]string // the outputs of false failures, by probe and time
	restarts map[string]int
	samples  int
	ready    map[string]bool // faulty targets with a result success
	errors   []string
	sized    []size
	last     map[string]float64 // metrics
}

// size is the resources of the agent.
type size struct {
	at                    time.Duration
	rss, goroutines, open float64
}

func newWatch(a *agent) *watch {
	return &watch{agent: a, begin: time.Now(), known: make(map[string]string), failures: make(map[string]string), restarts: make(map[string]int), ready: make(map[string]bool)}
}

func isHealthy(p *probeView) bool {
	return strings.HasPrefix(p.Pod, "healthy-") || strings.HasPrefix(p.Pod, "churn-")
}

// awaitHealthy waits until every healthy target has a result success.
func (w *watch) awaitHealthy(t *testing.T) {
	t.Helper()
	for giveUp := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		all, err := w.agent.probes("")
		var bad []string
		w.healthy, w.faulty = 0, 0
		for _, p := range all {
			if !isHealthy(&p) {
				w.faulty++
				continue
			}
			w.healthy++
			if p.Result != "success" || p.Last == nil {
				bad = append(bad, fmt.Sprintf("%s %s %+v", p.key(), p.Result, p.Last))
			}
		}
		if err == nil && w.healthy > 0 && len(bad) == 0 {
			w.begin = time.Now()
			return
		}
		if time.Now().After(giveUp) {
			t.Fatalf("not healthy at the start: %v, %d of %d: %q", err, len(bad), w.healthy, bad[:min(5, len(bad))])
		}
	}
}

// results looks every five seconds for failures of healthy targets. All readiness probes have the
// failure threshold 1, so each failure in the history was decided. The history has 20 ticks, a
// second apart.
func (w *watch) results(ctx context.Context, t *testing.T) {
	every(ctx, 5*time.Second, func(int) {
		all, err := w.agent.probes("")
		if err != nil {
			w.fail("probes: %v", err)
			return
		}
		restarts, err := w.agent.restarts()
		if err != nil {
			w.fail("pods: %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.samples++
		for _, p := range all {
			if !isHealthy(&p) && p.Kind == "readiness" && p.Result == "success" {
				w.ready[p.key()] = true
			}
			if !isHealthy(&p) || p.Last == nil { // of a new pod
				continue
			}
			if p.Result == "success" {
				w.known[p.key()] = p.ContainerID
			}
			if p.Result == "failure" && w.known[p.key()] == p.ContainerID { // a known container
				w.failures[p.key()+" decided "+p.Last.Time.String()] = p.Last.Output + p.Last.Error
			}
			for _, tick := range p.History {
				if tick.Result == "failure" && p.Kind == "readiness" && strings.HasPrefix(p.Pod, "healthy-") {
					w.failures[p.key()+" "+tick.Time.String()] = tick.Output
				}
			}
		}
		for container, count := range restarts {
			if count > 0 && (strings.HasPrefix(container, "healthy-") || strings.HasPrefix(container, "churn-")) {
				w.restarts[container] = count
			}
		}
	})
}

func (w *watch) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}

// sizes records the size of the agent.
func (w *watch) sizes(ctx context.Context, t *testing.T) {
	every(ctx, max(time.Second, min(5*time.Second, *soakTime/100)), func(int) {
		all, err := w.agent.metrics()
		if err != nil {
			w.fail("metrics: %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last = all
		w.sized = append(w.sized, size{time.Since(w.begin), all["process_resident_memory_bytes"], all["go_goroutines"], all["process_open_fds"]})
	})
}

// report compares the end with the time after the warm-up: a tenth of the samples each.
func (w *watch) report(t *testing.T, table *figures) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	table.add("samples of results", "%d; %d false failures, %d healthy containers restarted", w.samples, len(w.failures), len(w.restarts))
	table.add("attempts the host lost", "%.0f stalled, %.0f without resources", w.sum("prober_attempt_errors_total", "host_stall"), w.sum("prober_attempt_errors_total", "host_resources"))
	table.add("log lines dropped", "%.0f", w.sum("prober_log_lines_dropped_total", ""))
	if w.samples == 0 {
		t.Error("no results")
	}
	if len(w.failures) > 0 {
		var some []string
		for key, said := range w.failures {
			some = append(some, key+": "+said)
		}
		slices.Sort(some)
		t.Errorf("%d false failures: %q", len(some), some[:min(10, len(some))])
	}
	if len(w.restarts) > 0 {
		t.Errorf("healthy containers were restarted: %v", w.restarts)
	}
	if len(w.ready) > 0 {
		t.Errorf("faulty targets were ready: %v", w.ready)
	}
	if len(w.errors) > 0 {
		t.Errorf("%d requests failed: %q", len(w.errors), w.errors[:min(5, len(w.errors))])
	}
	n := len(w.sized)
	if n < 20 {
		t.Errorf("%d samples of sizes: too few", n)
		return
	}
	first, last := w.sized[n/settled:n/settled+n/10], w.sized[n-n/10:]
	for _, of := range []struct {
		name         string
		value        func(size) float64
		part, beyond float64 // the largest growth
	}{
		{"memory, MiB", func(s size) float64 { return s.rss / (1 << 20) }, 0.2, 8},
		{"goroutines", func(s size) float64 { return s.goroutines }, 0.1, 50},
		{"descriptors", func(s size) float64 { return s.open }, 0.1, 20},
	} {
		from, to, most := median(first, of.value), median(last, of.value), median(w.sized[n-1:], of.value)
		for _, s := range w.sized {
			most = max(most, of.value(s))
		}
		bound := from*(1+of.part) + of.beyond
		table.add(of.name, "%.0f after the warm-up, %.0f at the end (bound %.0f), %.0f at most", from, to, bound, most)
		if to > bound {
			t.Errorf("%s: from %.0f to %.0f, above %.0f", of.name, from, to, bound)
		}
	}
}

// sum returns the sum of the last samples of a metric that have a label's value.
func (w *watch) sum(metric, label string) (sum float64) {
	for name, value := range w.last {
		if strings.HasPrefix(name, metric) && strings.Contains(name, label) {
			sum += value
		}
	}
	return sum
}

func median(all []size, value func(size) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// slowReader returns the write end of a pipe that is read at 8 KiB a second, and at full speed after
// the test. The text is written to a writer too, if there is one.
func slowReader(t *testing.T, to io.Writer) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for part := make([]byte, 2<<10); ; {
			n, err := read.Read(part)
			if to != nil {
				_, _ = to.Write(part[:n])
			}
			if err != nil {
				return
			}
			select {
			case <-over:
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		_ = write.Close()
		reading.Wait()
		_ = read.Close()
	})
	return write
}

// logTo returns the writer of the agent's log, or nil.
func logTo(t *testing.T) io.Writer {
	t.Helper()
	if *logFile == "" {
		return nil
	}
	f, err := os.Create(*logFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// readStreamSlowly reads the stream at 4 KiB a second, or not at all, and begins again when the agent
// closes it.
func readStreamSlowly(ctx context.Context, t *testing.T, a *agent, never bool) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return conn, err
	}}}
	defer client.CloseIdleConnections()
	every(ctx, time.Second, func(int) {
		req, err := http.NewRequestWithContext(ctx, "GET", a.url+"/api/v1/stream", nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(req)
		if err != nil {
			return // ctx has ended, or the agent has refused
		}
		defer res.Body.Close()
		if never {
			<-ctx.Done()
			return
		}
		for part := make([]byte, 1<<10); ctx.Err() == nil; {
			if _, err := res.Body.Read(part); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
}

// marked returns the processes that have mark in their arguments or environment.
func marked(t *testing.T, mark string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, file := range [...]string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join("/proc", e.Name(), file)); err == nil && bytes.Contains(text, []byte(mark)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
