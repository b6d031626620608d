//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// world is an agent under load, with its files and targets.
type world struct {
	*options
	layout  layout
	report  *report
	agent   *agent
	targets targets
	ledger  *ledger
	keys    map[string]uint32 // accounts by probeView.key, of the first generation

	interrupted        bool
	pods               int
	manifests, plugins string    // folders
	mark               string    // in the command line of local processes
	versions           [2][]byte // of the redis plugin
	generations        []int     // by pod; used by churn alone
	absent             []bool    // by pod; used by churn alone

	applied, goodPlugin, badPlugin latencies    // until the API shows a change
	expected                       atomic.Int64 // attempts that a change or an action required

	mu                sync.Mutex
	sizes             []size
	scraped           scrape // the last one
	scrapes           durations
	lists             durations
	first             scrape         // the one when the schedules began, with totals
	firstAt           time.Time      // when first was made
	firstUsage        usage          // until firstAt
	listed            time.Time      // the last list of all probes that filled gaps
	failures          map[string]int // failed requests, by kind
	gapLists          atomic.Int64   // lists that filled gaps
	compared, bounded int            // totals of probes
	stream            streamed
}

// runLoad runs an agent with many probes, while manifests, plugins, targets and clients change and
// fail.
func runLoad(ctx context.Context, o *options, r *report) error {
	var c children
	defer c.end()
	// The targets outlive ctx: the agent is stopped first.
	all, log, err := runTargets(context.WithoutCancel(ctx), &c)
	if err != nil {
		return err
	}
	w := newWorld(o, r, all)
	go w.ledger.read(log)
	if err := w.writeAll(ctx); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	stdout, err := slowReader(over, nil)
	if err != nil {
		return err
	}
	stderr, err := slowReader(over, o.logTo(r))
	if err != nil {
		return err
	}
	begin := time.Now()
	w.agent, err = o.start(ctx, stdout, stderr, "-f", w.manifests, "--plugins", w.plugins, "--state-dir", filepath.Join(o.temp, "state"), "--pprof")
	_, _ = stdout.Close(), stderr.Close()
	if err != nil {
		return err
	}
	defer w.agent.kill()
	unfollow := w.follow(context.WithoutCancel(ctx))
	defer unfollow()
	if err := w.awaitHealthy(ctx); err != nil {
		return err
	}
	r.add("start", "every probe had its result after %v", time.Since(begin).Round(100*time.Millisecond))
	if err := w.beginSchedules(); err != nil {
		return err
	}
	w.run(ctx)
	unfollow()
	w.interrupted = ctx.Err() != nil
	w.finish()
	return nil
}

// follow starts to read the stream and to settle the ledger. The function that it returns ends both.
func (w *world) follow(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.followStream(ctx) })
	running.Go(func() { every(ctx, time.Second, func(int) { w.settle() }) })
	return func() {
		cancel()
		running.Wait()
	}
}

func newWorld(o *options, r *report, all targets) *world {
	w := &world{
		options: o, layout: layoutOf(o.probes), report: r, targets: all, pods: max(filePods, o.probes/podProbes),
		manifests: filepath.Join(o.temp, "pods"), plugins: filepath.Join(o.temp, "plugins"),
		mark: fmt.Sprintf("soak-%d-%d", os.Getpid(), time.Now().UnixNano()), failures: make(map[string]int),
		keys: make(map[string]uint32),
	}
	w.ledger = newLedger(w.layout, w.pods)
	w.generations, w.absent = make([]int, w.pods), make([]bool, w.pods)
	for pod := range w.pods {
		for _, p := range w.layout.probesOf(pod, 0) {
			w.keys[podName(pod)+"/"+p.container+"/"+p.kind] = keyOf(pod, p.port)
		}
	}
	w.stream.last = make(map[string]time.Time)
	return w
}

// writeAll writes the manifests and plugins.
func (w *world) writeAll(ctx context.Context) error {
	if err := w.pluginFolder(ctx, w.plugins, "redis", "httpjson"); err != nil {
		return err
	}
	if err := w.makeVersions(); err != nil {
		return err
	}
	if err := os.Mkdir(w.manifests, 0o700); err != nil {
		return err
	}
	for file := range w.files() {
		if err := w.writeFile(file); err != nil {
			return err
		}
	}
	return w.writeOdd()
}

// files returns the number of manifests.
func (w *world) files() int { return (w.pods + filePods - 1) / filePods }

// run makes all changes and checks until the duration is over, ctx ends or the agent has ended. Readers
// and measurements continue during the last check.
func (w *world) run(ctx context.Context) {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, w.duration)
	defer cancel()
	var readers, changes sync.WaitGroup
	for _, loop := range []func(context.Context){
		w.watch, w.readLists, w.readStreams,
		func(ctx context.Context) { every(ctx, 30*time.Second, func(int) { w.progress() }) },
	} {
		readers.Go(func() { loop(reading) })
	}
	for _, loop := range []func(context.Context){
		w.churn, w.churnPlugin, w.writeProfile,
		func(ctx context.Context) { w.act(ctx, 0) },
		func(ctx context.Context) { w.act(ctx, 1) },
		func(ctx context.Context) {
			every(ctx, 15*time.Second, func(int) { _ = w.agent.cmd.Process.Signal(syscall.SIGHUP) })
		},
		func(ctx context.Context) {
			every(ctx, time.Minute, func(i int) {
				if i > 0 {
					w.check(3)
				}
			})
		},
	} {
		changes.Go(func() { loop(ctx) })
	}
	select {
	case <-w.agent.ended:
		w.report.fault("the agent has ended: %v", w.agent.cmd.ProcessState)
		cancel()
	case <-ctx.Done():
	}
	changes.Wait()
	if w.agent.runs() {
		w.check(10)
	}
	stop()
	readers.Wait()
}

// finish completes the report and stops the agent.
func (w *world) finish() {
	w.summary()
	w.checkFlat()
	if w.agent.runs() {
		w.agent.end(w.report)
	}
	if left := marked(w.mark); len(left) > 0 {
		w.report.fault("%d processes outlive the agent", len(left))
	}
}

// failed counts a failed request of a kind. It reports the first one of each kind as a fault.
func (w *world) failed(kind string, err error) {
	if !w.agent.runs() { // run reports that the agent has ended
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failures[kind]++; w.failures[kind] == 1 {
		w.report.fault("%s: %v", kind, err)
	}
}

// awaitHealthy waits until the probes of all healthy targets have the result success, and all others have
// had a tick.
func (w *world) awaitHealthy(ctx context.Context) error {
	limit := patience + time.Duration(w.pods)*100*time.Millisecond
	for giveUp := time.Now().Add(limit); ; {
		s, err := w.agent.scrape(false)
		if err != nil {
			return err
		}
		var items []probeView
		if int(s.values["prober_workers"]) >= w.pods*podProbes {
			if items, err = w.agent.allProbes(); err != nil {
				return err
			}
		}
		bad, example := 0, ""
		for _, p := range items {
			if key, known := w.keys[p.key()]; p.Last == nil && p.Kind != "startup" || known && !w.faulty(key) && p.Result != "success" {
				bad++
				example = fmt.Sprintf("%s is %s, %+v", p.key(), p.Result, p.Last)
			}
		}
		if bad == 0 && len(items) >= w.pods*podProbes {
			return nil
		}
		if time.Now().After(giveUp) {
			return fmt.Errorf("%v after the start, there are %.0f probes, and %d have no result or are not healthy, such as %s", limit, s.values["prober_workers"], bad, example)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.agent.ended:
			return fmt.Errorf("the agent has ended: %v", w.agent.cmd.ProcessState)
		case <-time.After(4 * time.Second):
		}
	}
}

// faulty reports whether the target of a probe fails sometimes.
func (w *world) faulty(key uint32) (faulty bool) {
	w.ledger.do(key, func(a *account) { faulty = a.faulty || a.port == portGate })
	return faulty
}

// beginSchedules begins the schedules of the ledger, and records the metrics at that time.
func (w *world) beginSchedules() error {
	begin := time.Now()
	items, err := w.agent.allProbes()
	if err != nil {
		return err
	}
	for i := range items {
		w.merge(&items[i], begin)
	}
	w.ledger.settle()
	if err := w.ledger.begin(); err != nil {
		return err
	}
	w.first, err = w.agent.scrape(true)
	w.firstAt, w.scraped, w.firstUsage = time.Now(), w.first, w.usage()
	w.compareTotals(5)
	return err
}

// slowReader returns the write end of a pipe. The pipe is read at 8 KiB a second until over is closed, and
// then at full speed. If to is not nil, it gets the data.
func slowReader(over <-chan struct{}, to io.Writer) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer read.Close()
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
	}()
	return write, nil
}

// logTo returns a writer for the agent's log, or nil.
func (o *options) logTo(r *report) io.Writer {
	if o.log == "" {
		return nil
	}
	f, err := os.Create(o.log)
	if err != nil {
		r.fault("%v", err)
		return nil
	}
	return f // closed by the end of the process
}

// busyHost is a number of processors. A soak with a fault should be repeated on a quiet host if other
// programs use more: all but the agent, the targets and this one. The agent's exec probes and plugins are
// among them.
const busyHost = 0.2

// summary adds the figures to the report.
func (w *world) summary() {
	t := w.ledger.tally(w.slack())
	w.mu.Lock()
	lag, s, r := w.scraped.lag.since(w.first.lag), &w.scraped, w.report
	elapsed := time.Since(w.firstAt)
	r.add("load", "%d pods in %d manifests, %.0f probes, %.0f ticks (%.0f a second)",
		w.pods, w.files(), s.values["prober_workers"], lag.total(), lag.total()/elapsed.Seconds())
	host, others := w.firstUsage.since(w.usage())
	r.add("host", "%s; targets at nice %d", host, w.targets.Nice)
	if others > busyHost {
		r.note = fmt.Sprintf("; other programs used %.2f processors: repeat it on a quiet host", others)
	}
	r.add("ticks", "%d of %d probes: %d lost, %d doubled, %d a period late, %d without a result since the agent did not run",
		t.ticks, t.probes, t.lost, t.doubled, t.tardy, t.stalls)
	r.add("attempts", "%d repeated, %d without a tick, %d of ticks that the history may have dropped, %d after a change, %d without a probe; %d ticks without an attempt",
		t.retries, t.unreported, t.dropped, t.stale, t.strays, t.unseen)
	r.add("skipped by the agent", "%s", w.skippedLocked())
	r.add("results", "%d compared with the target, %d wrong; %d decided compared with the thresholds, %d wrong; %d errors",
		t.results, t.wrong, t.decided, t.misjudged, t.errors)
	r.add("prober_probe_total", "%d equal the ticks of the probe; the last check had no scrape between two ticks for %d, which are within bounds", w.compared, w.bounded)
	r.add("schedule lag", "median %s, 99%% %s, 99.9%% %s", seconds(lag.quantile(0.5)), seconds(lag.quantile(0.99)), seconds(lag.quantile(0.999)))
	r.add("seen by targets", "after the due time: median %v, 99%% %v, 99.9%% %v, max %v", w.ledger.lateness(0.5), w.ledger.lateness(0.99), w.ledger.lateness(0.999), w.ledger.lateness(1))
	r.add("scrapes", "%v; %s each", w.scrapes, mib(float64(s.bytes)))
	r.add("lists of all probes", "%v; %d more lists for ticks that the stream has omitted", w.lists, w.gapLists.Load())
	r.add("log lines dropped", "%.0f", s.sum("prober_log_lines_dropped_total", ""))
	w.mu.Unlock()
	w.stream.report(r)
	w.applied.report(r, w.interrupted, "manifest changes")
	w.goodPlugin.report(r, w.interrupted, "plugin versions")
	w.badPlugin.report(r, w.interrupted, "bad plugins refused")
	r.add("expected attempts", "%d, after changes and actions", w.expected.Load())
}

// streamClient returns a client with a small receive buffer.
func streamClient(buffer int) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dialWithBuffer(buffer)}}
}
