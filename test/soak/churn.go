//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/plugin"
)

const (
	// changeLimit is how long the API may take to show a change.
	changeLimit = 15 * time.Second
	// attemptGrace is how long after a change an attempt from before it may still reach its target.
	attemptGrace = 500 * time.Millisecond
)

// writeFile writes a manifest with its pods, except the absent ones. Most of them are unchanged.
func (w *world) writeFile(file int) error {
	var docs []string
	for pod := file * filePods; pod < min((file+1)*filePods, w.pods); pod++ {
		if !w.absent[pod] {
			docs = append(docs, w.layout.manifest(&w.targets, pod, w.generations[pod]))
		}
	}
	return putFile(filepath.Join(w.manifests, fmt.Sprintf("pods-%05d.yaml", file)), []byte(strings.Join(docs, "---\n")))
}

// churn changes a manifest each second, or less often: a manifest is not changed again within twice
// changeLimit. A change modifies one pod, or removes or adds another, or both.
func (w *world) churn(ctx context.Context) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	files := w.files()
	every(ctx, max(time.Second, 2*changeLimit/time.Duration(files)), func(i int) {
		file := i % files
		base := file * filePods
		changed, recreated := base+7, base+13
		if recreated >= w.pods {
			return
		}
		action := (i + i/files) % 3
		if action != 0 {
			w.generations[changed]++
			w.expectAttempts(changed, w.generations[changed])
		}
		if action != 1 {
			w.absent[recreated] = !w.absent[recreated]
			if !w.absent[recreated] {
				w.expectAttempts(recreated, 0)
			}
		}
		begin := time.Now()
		if err := w.writeFile(file); err != nil {
			w.report.fault("%v", err)
			return
		}
		if generation := w.generations[changed]; action != 0 {
			waiting.Go(func() { w.awaitChange(ctx, begin, changed, generation) })
		}
		if absent := w.absent[recreated]; action != 1 {
			waiting.Go(func() { w.awaitPresence(ctx, begin, recreated, absent) })
		}
	})
}

// expectAttempts makes the ledger accept attempts of all probes of a generation of a pod.
func (w *world) expectAttempts(pod, generation int) {
	for _, p := range w.layout.probesOf(pod, generation) {
		w.ledger.do(keyOf(pod, p.port), func(a *account) { a.closed = 0 })
	}
}

// expectNoAttempts makes the ledger count attempts on ports of a pod as stale, from attemptGrace after
// shown.
func (w *world) expectNoAttempts(pod int, shown time.Time, unused ...port) {
	for _, p := range unused {
		w.ledger.do(keyOf(pod, p), func(a *account) { a.closed = shown.Add(attemptGrace).UnixNano() })
	}
}

// awaitChange waits until the API shows a generation of a pod. From then on, attempts must go to its new
// ports, and none to the old ones.
func (w *world) awaitChange(ctx context.Context, begin time.Time, pod, generation int) {
	ok := w.applied.await(ctx, begin, fmt.Sprintf("%s generation %d", podName(pod), generation), func() (bool, error) {
		items, err := w.agent.probes("?container=web&kind=readiness&pod=" + podName(pod))
		return len(items) == 1 && items[0].Spec.FailureThreshold == generation+1, err
	})
	if !ok {
		return
	}
	shown := time.Now()
	now, before := w.layout.probesOf(pod, generation), w.layout.probesOf(pod, generation-1)
	w.expectNoAttempts(pod, shown, before[1].port, before[2].port)
	w.expect(ctx, keyOf(pod, now[1].port), begin, now[1].period+2*time.Second, podName(pod)+" was changed")
}

// awaitPresence waits until the API shows that a pod is absent or present. From then on, it must have no
// attempts, or at least one.
func (w *world) awaitPresence(ctx context.Context, begin time.Time, pod int, absent bool) {
	ok := w.applied.await(ctx, begin, fmt.Sprintf("%s absent: %v", podName(pod), absent), func() (bool, error) {
		items, err := w.agent.probes("?pod=" + podName(pod))
		return absent && len(items) == 0 || !absent && len(items) == podProbes, err
	})
	if !ok {
		return
	}
	if !absent {
		within := w.layout.probesOf(pod, 0)[5].period + 2*time.Second
		w.expect(ctx, keyOf(pod, portDBReady), begin, within, podName(pod)+" was added")
		return
	}
	shown := time.Now()
	for _, p := range w.layout.probesOf(pod, 0) {
		if !p.unseen {
			w.expectNoAttempts(pod, shown, p.port)
		}
	}
}

// expect waits for an attempt of a probe after begin. It reports a fault if there is none in the time
// within.
func (w *world) expect(ctx context.Context, key uint32, begin time.Time, within time.Duration, why string) {
	w.expected.Add(1)
	for giveUp := time.Now().Add(within); ; {
		var last int64
		w.ledger.do(key, func(a *account) { last = a.last })
		if last >= begin.UnixNano() {
			return
		}
		if time.Now().After(giveUp) {
			w.report.fault("%s, and no attempt followed within %v", why, within)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// act pauses, resumes and triggers the readiness probe of the container db, in one pod of every other
// manifest: in the even ones if part is 0, in the odd ones if it is 1.
func (w *world) act(ctx context.Context, part int) {
	var pods []int
	for file := part; file < w.files(); file += 2 {
		if pod := file*filePods + 3; pod < w.pods {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return
	}
	every(ctx, time.Second, func(i int) {
		pod := pods[i%len(pods)]
		probe, key := podName(pod)+"/db/readiness", keyOf(pod, portDBReady)
		do := func(action string) (begin time.Time, ok bool) {
			begin = time.Now()
			if err := w.agent.act(probe, action); err != nil && ctx.Err() == nil {
				w.failed(action, err)
				return begin, false
			}
			return begin, true
		}
		if _, ok := do("pause"); !ok {
			return
		}
		w.expectNoAttempts(pod, time.Now(), portDBReady)
		select {
		case <-ctx.Done():
		case <-time.After(4 * time.Second):
		}
		w.ledger.do(key, func(a *account) { a.closed = 0 })
		for _, action := range []string{"resume", "trigger"} {
			if begin, ok := do(action); ok {
				w.expect(ctx, key, begin, 2*time.Second, action+" "+probe)
			}
		}
	})
}

// makeVersions builds two versions of the redis plugin.
func (w *world) makeVersions() error {
	manifest, err := os.ReadFile("examples/plugins/redis/plugin.yaml")
	if err != nil {
		return err
	}
	module, err := os.ReadFile(filepath.Join(w.folder, "redis.wasm"))
	if err != nil {
		return err
	}
	for i := range w.versions {
		text := strings.Replace(string(manifest), "version: 0.1.0", fmt.Sprintf("version: 0.1.%d", i), 1)
		if w.versions[i], err = plugin.Embed(module, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// churnPlugin replaces the redis plugin every ten seconds, by a valid version and an invalid file in turn.
// The agent must keep the last valid version.
func (w *world) churnPlugin(ctx context.Context) {
	path := filepath.Join(w.plugins, "redis.wasm")
	every(ctx, 10*time.Second, func(i int) {
		begin := time.Now()
		if i%2 == 1 {
			if err := putFile(path, slices.Concat(w.versions[0][:1000], []byte("no module"))); err != nil {
				w.report.fault("%v", err)
			}
			w.badPlugin.await(ctx, begin, "bad plugin", func() (bool, error) {
				p, err := w.agent.plugin("redis")
				return p.Error != "", err
			})
			return
		}
		next := (i/2 + 1) % 2
		if err := putFile(path, w.versions[next]); err != nil {
			w.report.fault("%v", err)
		}
		version := fmt.Sprintf("0.1.%d", next)
		w.goodPlugin.await(ctx, begin, "redis "+version, func() (bool, error) {
			p, err := w.agent.plugin("redis")
			return p.Version == version && p.Error == "", err
		})
	})
}

// latencies are the times until the agent showed changes.
type latencies struct {
	mu     sync.Mutex
	all    durations
	late   []string
	errors int
	last   error
}

// await calls shown until it returns true, and records the time since begin. It reports whether shown
// has returned true. A wait that ctx ends before changeLimit is not recorded.
func (l *latencies) await(ctx context.Context, begin time.Time, what string, shown func() (bool, error)) bool {
	for {
		ok, err := shown()
		took := time.Since(begin)
		l.mu.Lock()
		if err != nil && ctx.Err() == nil {
			l.errors++
			l.last = err
		}
		over := ok || took > changeLimit && ctx.Err() != nil || took > patience
		if over {
			l.all = append(l.all, took)
			if took > changeLimit {
				l.late = append(l.late, fmt.Sprintf("%s after %v (shown: %v)", what, took.Round(time.Millisecond), ok))
			}
		}
		l.mu.Unlock()
		if over || ctx.Err() != nil && took <= changeLimit {
			return ok
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (l *latencies) record(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
}

// report adds the times to r. It reports a fault if there are none and the soak was not interrupted.
func (l *latencies) report(r *report, interrupted bool, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		if !interrupted {
			r.fault("%s: no measurement", name)
		}
		return
	}
	r.add(name, "%v; %d above %v", l.all, len(l.late), changeLimit)
	if len(l.late) > 0 {
		r.fault("%s: %d of %d later than %v, first %q", name, len(l.late), len(l.all), changeLimit, l.late[:min(3, len(l.late))])
	}
	if l.errors > 0 {
		r.fault("%s: %d requests failed, last: %v", name, l.errors, l.last)
	}
}
