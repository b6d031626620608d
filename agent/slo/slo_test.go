package slo_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/slo"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a run of an agent: a history and a tracker that observe the same probes.
type rig struct {
	t     *testing.T
	dir   string
	store *history.Store
	*slo.Tracker
	stop func()
}

func run(t *testing.T, dir string, slos ...config.SLO) *rig {
	ctx, cancel := context.WithCancel(t.Context())
	r := &rig{t: t, dir: dir, store: history.New(history.Config{StateDir: dir})}
	r.Tracker = slo.New(slo.Config{Past: r.store.Spans, File: r.file(), Log: slog.New(slog.DiscardHandler)})
	r.Set(slos)
	var running sync.WaitGroup
	running.Go(func() { r.store.Run(ctx) })
	running.Go(func() { r.Tracker.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		r.End()
		r.store.End()
		cancel()
		running.Wait()
	})
	t.Cleanup(r.stop)
	synctest.Wait() // the history is open
	return r
}

func (r *rig) file() string { return filepath.Join(r.dir, "slos.json") }

func info(pod, uid string, pairs ...string) worker.Info {
	meta := &probe.Pod{Labels: make(map[string]string)}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		meta.Labels[name] = value
	}
	return worker.Info{Subject: results.Subject{Namespace: "default", Pod: pod, PodUID: uid, Container: "web"}, Kind: probe.Readiness, Handler: "http", PodMeta: meta}
}

// observe adds a probe to the history and the tracker, and returns a function that ends it.
func (r *rig) observe(i worker.Info) (end func()) {
	a, b := r.store.Observe(i), r.Tracker.Observe(i)
	return func() { a.Close(); b.Close() }
}

func (r *rig) change(i worker.Info, to states.State) {
	c := &states.Change{Info: i, From: (to + 1) % 4, To: to, Time: time.Now()}
	r.store.Changed(c)
	r.Changed(c)
}

func (r *rig) spare(i worker.Info, spared bool) {
	r.store.Spare(&i, spared)
	r.Spare(&i, spared)
}

// objective returns an SLO for all readiness probes.
func objective(name string, percent float64, window time.Duration) config.SLO {
	return config.SLO{Name: name, Objective: percent, Window: window, Kinds: []probe.Kind{probe.Readiness}, Maintenance: config.UptimeExclude}
}

// seconds formats the seconds of each objective.
func seconds(all []api.SLO) (text string) {
	for i := range all {
		text += fmt.Sprintf("%s %.0f/%.0f ", all[i].Name, all[i].GoodSeconds, all[i].BadSeconds)
	}
	return strings.TrimSpace(text)
}

// reported formats what a report has for windows that end at now.
func (r *rig) reported(now time.Time, slos []config.SLO) (text string) {
	r.t.Helper()
	for i := range slos {
		good, bad := 0.0, 0.0
		q := history.Query{Since: now.Add(-slos[i].Window), Until: now, Match: func(*history.Key) bool { return true }}
		err := r.store.Report(r.t.Context(), &q, func(*history.Page) error { return nil }, func(i *api.ReportItem) error {
			good += i.Seconds.Success + i.Seconds.Warning
			bad += i.Seconds.Failure
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		text += fmt.Sprintf("%s %.0f/%.0f ", slos[i].Name, good, bad)
	}
	return strings.TrimSpace(text)
}

// SLOs have the seconds of a report about the same time: while the agent runs, after a restart with the
// file of the sums, without it, and with an old one, as an agent leaves it that is killed.
func TestSLOsEqualReports(t *testing.T) {
	slos := []config.SLO{objective("hour", 99, time.Hour), objective("six", 99, 6*time.Hour), objective("day", 99.9, 24*time.Hour), objective("days", 99.9, 96*time.Hour)}
	const pods = 3
	for seed := range uint64(3) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			rand := rand.New(rand.NewPCG(seed, 7))
			var old []byte
			for life := range 4 {
				r := run(t, dir, slos...)
				ends, spared := make([]func(), pods), make([]bool, pods)
				for range 40 {
					i := rand.IntN(pods)
					web := info(fmt.Sprint("web-", i), fmt.Sprint(life, i))
					switch n := rand.IntN(12); {
					case ends[i] == nil:
						ends[i], spared[i] = r.observe(web), false
					case n == 0:
						ends[i]()
						ends[i] = nil
					case n < 3:
						spared[i] = !spared[i]
						r.spare(web, spared[i])
					default:
						r.change(web, states.State(rand.IntN(4)))
					}
					time.Sleep(time.Duration(1+int(math.Exp(rand.Float64()*8.5))) * time.Second)
				}
				now := time.Now().Truncate(time.Hour).Add(time.Hour)
				time.Sleep(time.Until(now))
				got := seconds(r.Statuses(nil))
				time.Sleep(10 * time.Second)
				if want := r.reported(now, slos); got != want {
					t.Fatalf("seed %d, life %d:\ngot  %s\nwant %s", seed, life, got, want)
				}
				time.Sleep(10 * time.Minute)
				old, _ = os.ReadFile(r.file())
				time.Sleep(7 * time.Minute)
				r.stop()
				switch life {
				case 1: // the file is lost
					if err := os.Remove(r.file()); err != nil {
						t.Fatal(err)
					}
				case 2: // the last minutes are not saved
					if err := os.WriteFile(r.file(), old, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Duration(rand.IntN(4000)) * time.Second)
			}
		})
	}
}

func TestBudgetAndBurnRates(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, dir, objective("shop", 99, 24*time.Hour))
		web := info("web", "1")
		defer r.observe(web)()
		r.change(web, states.Success)
		time.Sleep(10*time.Hour - 6*time.Minute)
		r.change(web, states.Failure)
		time.Sleep(6 * time.Minute)
		got := r.Statuses(nil)[0]
		const total = 360.0 // 1 % of 10 hours
		want := api.SLO{
			Name: "shop", Objective: 99, Window: "1d", Kinds: []string{"readiness"}, Maintenance: "exclude", Probes: 1, Failing: 1,
			Since: time.Now().Add(-10 * time.Hour).UTC(), GoodSeconds: 36000 - 360, BadSeconds: 360, Availability: new(0.99),
			Budget: api.ErrorBudget{TotalSeconds: total, SpentSeconds: 360, LeftSeconds: total - 360, Left: new(0.0)},
		}
		for _, b := range []struct {
			window string
			rate   float64
		}{{"5m", 100}, {"30m", 20}, {"1h", 10}, {"6h", 100.0 / 60}, {"3d", 1}} {
			want.BurnRates = append(want.BurnRates, api.BurnRate{Window: b.window, Rate: new(b.rate)})
		}
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, math.Abs(a)) })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if c := r.Counts(); len(c) != 1 || c[0] != (agentmetrics.SLO{Name: "shop", Objective: 0.99, Good: 35640, Bad: 360}) {
			t.Errorf("%+v", c)
		}
		time.Sleep(48 * time.Hour)
		got = r.Statuses(nil)[0]
		if got.GoodSeconds != 0 || got.BadSeconds != 86400 || math.Abs(*got.Budget.Left+99) > 1e-9 {
			t.Errorf("after two days: %+v", got)
		}
	})
}

// An SLO counts all time, or none, of maintenance windows, forced states and time without a verdict.
func TestTimeThatIsNotMeasured(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		counts := objective("counts", 99, 24*time.Hour)
		counts.Maintenance = config.UptimeCount
		r := run(t, dir, objective("spares", 99, 24*time.Hour), counts)
		web := info("web", "1")
		end := r.observe(web)
		expect := func(when, want string) {
			t.Helper()
			if got := seconds(r.Statuses(nil)); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", when, got, want)
			}
		}
		time.Sleep(time.Hour)
		if s := r.Statuses(nil)[0]; s.Availability != nil || s.Budget.Left != nil || s.BurnRates[0].Rate != nil || !s.Since.IsZero() {
			t.Errorf("undecided: %+v", s)
		}
		r.change(web, states.Warning)
		time.Sleep(time.Minute)
		r.spare(web, true)
		r.change(web, states.Failure)
		time.Sleep(time.Minute)
		expect("maintenance", "spares 60/0 counts 60/60")
		r.spare(web, false)
		time.Sleep(time.Minute)
		r.Changed(&states.Change{Info: web, From: states.Failure, To: states.Success, Time: time.Now(), Forced: true})
		time.Sleep(time.Minute)
		expect("forced up", "spares 60/120 counts 60/180")
		r.change(web, states.Unknown)
		time.Sleep(time.Minute)
		end()
		time.Sleep(time.Minute)
		expect("end", "spares 60/120 counts 60/180")
	})
}

// A pod that is gone counts further for an SLO that selects labels, also after a restart.
func TestGonePodsCountByTheirLabels(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		shop := objective("shop", 99, 24*time.Hour)
		selector, err := labels.Parse("app=shop")
		if err != nil {
			t.Fatal(err)
		}
		shop.Match = []config.ProbeMatch{{Labels: selector}}
		r := run(t, dir, shop)
		first, other := info("shop-1", "1", "app=shop"), info("cart", "2", "app=cart")
		end := r.observe(first)
		defer r.observe(other)()
		r.change(first, states.Success)
		r.change(other, states.Success)
		time.Sleep(time.Hour)
		end()
		if got := seconds(r.Statuses(nil)); got != "shop 3600/0" {
			t.Error(got)
		}
		r.stop()
		r = run(t, dir, shop)
		time.Sleep(time.Hour)
		if got := seconds(r.Statuses(nil)); got != "shop 3600/0" {
			t.Errorf("after a restart: %s", got)
		}
		second := info("shop-2", "3", "app=cart")
		defer r.observe(second)()
		r.change(second, states.Failure)
		time.Sleep(time.Minute)
		relabelled := info("shop-2", "3", "app=shop")
		if !r.Differs(&relabelled) {
			t.Error("labels do not differ")
		}
		r.Relabel([]worker.Info{relabelled})
		time.Sleep(time.Minute)
		if got := seconds(r.Statuses(nil)); got != "shop 3600/60" {
			t.Errorf("after another label: %s", got)
		}
		if got := seconds(r.Statuses(&history.Key{Namespace: "default", Pod: "shop-2", Container: "web", Kind: probe.Readiness})); got != "shop 3600/60" {
			t.Errorf("of the probe: %q", got)
		}
		if got := r.Statuses(&history.Key{Namespace: "default", Pod: "shop-1", Container: "web", Kind: probe.Readiness}); len(got) != 0 {
			t.Errorf("of a probe that is gone: %+v", got)
		}
	})
}

// A reload keeps the sums of an SLO that counts the same time, and reads the past of a new one.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, dir, objective("shop", 99, 24*time.Hour))
		web := info("web", "1")
		defer r.observe(web)()
		r.change(web, states.Failure)
		time.Sleep(time.Hour)
		r.Set([]config.SLO{objective("new", 99, 48*time.Hour), objective("shop", 98, 24*time.Hour)})
		time.Sleep(time.Hour)
		if got := seconds(r.Statuses(nil)); got != "new 0/7200 shop 0/7200" {
			t.Error(got)
		}
		if c := r.Counts(); c[0].Bad != 3600 || c[1].Bad != 7200 || c[1].Objective != 0.98 {
			t.Errorf("counters have a past: %+v", c)
		}
		r.Set(nil)
		if got := r.Statuses(nil); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// BenchmarkChange changes the state of one of 100,000 probes that all of the most SLOs select.
func BenchmarkChange(b *testing.B) {
	var slos []config.SLO
	for i := range config.MaxSLOs {
		slos = append(slos, objective(fmt.Sprint("slo-", i), 99, 30*24*time.Hour))
	}
	t := slo.New(slo.Config{Log: slog.New(slog.DiscardHandler)})
	t.Set(slos)
	probes := make([]worker.Info, 100_000)
	for i := range probes {
		probes[i] = info(fmt.Sprint("web-", i), fmt.Sprint(i))
		t.Observe(probes[i])
	}
	b.Run("do=change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			t.Changed(&states.Change{Info: probes[i%len(probes)], To: states.State(1 + 2*(i/len(probes)%2)), Time: time.Now()})
		}
	})
	b.Run("do=scrape", func(b *testing.B) {
		for b.Loop() {
			t.Counts()
		}
	})
	b.Run("do=list", func(b *testing.B) {
		for b.Loop() {
			t.Statuses(nil)
		}
	})
}
