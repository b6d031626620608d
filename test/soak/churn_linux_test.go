//go:build soak

package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
)

// slots is the number of pods that change.
const slots = 21

// change writes the manifest of a slot: its failure threshold, which the API shows, is its
// generation.
func (w *world) change(t *testing.T, slot, generation int) {
	t.Helper()
	name := slotName(slot)
	w.write(t, name, fmt.Sprintf(pod, name, "\n      {}", fmt.Sprintf(`
  - name: c
    readinessProbe: {httpGet: {path: /ok, port: %d}, periodSeconds: 1, failureThreshold: %d}
    livenessProbe: {httpGet: {path: /ok, port: %[1]d}, periodSeconds: 2}`, w.http, generation)))
}

func slotName(slot int) string { return fmt.Sprintf("churn-%02d", slot) }

// churn changes, removes or adds a manifest each second, and measures the time until the API shows
// it. A slot is removed, added again 13 s later, and changed 8 s after that: no change overtakes the
// one before it.
func (w *world) churn(ctx context.Context, t *testing.T, a *agent) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	every(ctx, time.Second, func(i int) {
		slot, generation := i/3, i+2
		switch i % 3 {
		case 1:
			slot, generation = slot+7, 0
		case 2:
			slot += 3
		}
		slot %= slots
		if generation > 0 {
			w.change(t, slot, generation)
		} else if err := os.Remove(filepath.Join(w.manifests, slotName(slot)+".yaml")); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		waiting.Go(func() {
			w.applied.await(ctx, begin, fmt.Sprintf("%s generation %d", slotName(slot), generation), func() (bool, error) {
				items, err := a.probes("?kind=readiness&pod=" + slotName(slot))
				if err != nil {
					return false, err
				}
				if generation == 0 {
					return len(items) == 0, nil
				}
				return len(items) == 1 && items[0].Spec.FailureThreshold == generation, nil
			})
		})
	})
}

// makeVersions makes two versions of the redis plugin.
func (w *world) makeVersions(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("../../examples/plugins/redis/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(plugins, "redis.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.goodVersions {
		text := strings.Replace(string(manifest), "version: 0.1.0", fmt.Sprintf("version: 0.1.%d", i), 1)
		if w.goodVersions[i], err = plugin.Embed(module, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// churnPlugin replaces the redis plugin every six seconds: by a valid version, and then by an
// invalid file. Healthy probes go on with the last valid version.
func (w *world) churnPlugin(ctx context.Context, t *testing.T, a *agent) {
	path := filepath.Join(w.plugins, "redis.wasm")
	every(ctx, 6*time.Second, func(i int) {
		begin := time.Now()
		if i%2 == 1 {
			putFile(t, path, slices.Concat(w.goodVersions[0][:1000], []byte("no module")))
			w.badPlugin.await(ctx, begin, "bad plugin", func() (bool, error) {
				all, err := a.metrics()
				good, ok := all[`prober_config_last_reload_successful`]
				return ok && good == 0, err
			})
			return
		}
		next := (i/2 + 1) % 2
		putFile(t, path, w.goodVersions[next])
		w.goodPlugin.await(ctx, begin, fmt.Sprintf("redis 0.1.%d", next), func() (bool, error) {
			all, err := a.metrics()
			for name := range all {
				if strings.HasPrefix(name, "prober_plugin_info{") && strings.Contains(name, `"redis"`) && strings.Contains(name, fmt.Sprintf(`version="0.1.%d"`, next)) {
					return true, err
				}
			}
			return false, err
		})
	})
}

// latencies are the times until changes were shown.
type latencies struct {
	mu     sync.Mutex
	all    []time.Duration
	late   []string
	errors int
	last   error
}

// await calls shown until it returns true, and records the time since begin. A wait that ctx ends
// before the limit does not count.
func (l *latencies) await(ctx context.Context, begin time.Time, what string, shown func() (bool, error)) {
	for {
		ok, err := shown()
		took := time.Since(begin)
		l.mu.Lock()
		if err != nil {
			l.errors++
			l.last = err
		}
		over := ok || took > limit && ctx.Err() != nil || took > patience
		if over {
			l.all = append(l.all, took)
			if took > limit {
				l.late = append(l.late, fmt.Sprintf("%s after %v (shown: %v)", what, took.Round(time.Millisecond), ok))
			}
		}
		l.mu.Unlock()
		if over || ctx.Err() != nil && took <= limit {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (l *latencies) report(t *testing.T, table *figures, name string, limit time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		t.Errorf("%s: no measurement", name)
		return
	}
	slices.Sort(l.all)
	at := func(part float64) time.Duration {
		return l.all[int(part*float64(len(l.all)-1))].Round(time.Millisecond)
	}
	table.add(name, "%d: median %v, 99%% %v, max %v; %d above %v; %d requests failed", len(l.all), at(0.5), at(0.99), at(1), len(l.late), limit, l.errors)
	if len(l.late) > 0 {
		t.Errorf("%s: %d of %d later than %v, first %q", name, len(l.late), len(l.all), limit, l.late[:min(5, len(l.late))])
	}
	if l.errors > 0 {
		t.Errorf("%s: %d requests failed, last: %v", name, l.errors, l.last)
	}
}
