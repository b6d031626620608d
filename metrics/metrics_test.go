package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var web = worker.Info{
	Subject: results.Subject{Namespace: "default", Pod: "shop", PodUID: "u1", Container: "web"}, Kind: probe.Readiness, Handler: "http",
}

func setup(t testing.TB) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	m, registry := metrics.New(metrics.Config{Version: "v1", Revision: "abc"}), prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	return m, registry
}

// tick returns a counted tick that took 30 ms.
func tick(r probe.Result, counted results.Result) *worker.Tick {
	now := time.Unix(1700000000, 0)
	return &worker.Tick{
		Due: now, Start: now.Add(time.Millisecond), End: now.Add(31 * time.Millisecond), Handler: "http", Attempts: 1,
		Outcome: probe.Outcome{Result: r}, Counted: true, Result: counted,
	}
}

func erred(err error, attempts int) *worker.Tick {
	t := tick(probe.Unknown, results.Success)
	t.Counted, t.Err, t.Attempts = false, err, attempts
	return t
}

// samples returns the sample lines of the named families, without buckets.
func samples(t *testing.T, registry *prometheus.Registry, names ...string) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.Metric {
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				value = float64(h.GetSampleCount())
			}
			var text []string
			for _, k := range slices.Sorted(maps.Keys(labels)) {
				text = append(text, k+"="+labels[k])
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(text, ","), value))
		}
	}
	return lines
}

const shop = "namespace=default,pod=shop"

func TestKubeletMetrics(t *testing.T) {
	t.Run("#226 the kubelet's metrics: labels, values, and series that go with their worker", func(t *testing.T) {
		m, registry := setup(t)
		o := m.Observe(web)
		if got := samples(t, registry, "prober_probe_total", "prober_probe_duration_seconds"); len(got) > 0 {
			t.Errorf("before the first tick there is %v", got)
		}
		o.Tick(tick(probe.Success, results.Success))
		o.Tick(tick(probe.Success, results.Success))
		o.Tick(tick(probe.Failure, results.Failure))
		want := []string{
			"prober_probe_duration_seconds{container=web," + shop + ",probe_type=Readiness} 2",
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=failed} 1",
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=successful} 2",
		}
		if diff := cmp.Diff(want, samples(t, registry, "prober_probe_total", "prober_probe_duration_seconds")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		o.Close()
		if got := samples(t, registry, "prober_probe_total", "prober_probe_duration_seconds"); len(got) > 0 {
			t.Errorf("after the worker's end there is %v", got)
		}
	})
	for _, c := range []struct {
		name string
		tick *worker.Tick
		want []string
	}{
		{"#226 a Warning counts as successful and is measured", tick(probe.Warning, results.Success), []string{
			"prober_probe_duration_seconds{container=web," + shop + ",probe_type=Readiness} 1",
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=successful} 1",
		}},
		{"#226 a Failure is not measured", tick(probe.Failure, results.Failure), []string{
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=failed} 1",
		}},
		{"#226 Unknown without an error counts as failed", tick(probe.Unknown, results.Failure), []string{
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=failed} 1",
		}},
		{"#226 an errored tick is counted nowhere", erred(errors.New("no such program"), 3), []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, registry := setup(t)
			m.Observe(web).Tick(c.tick)
			if diff := cmp.Diff(c.want, samples(t, registry, "prober_probe_total", "prober_probe_duration_seconds")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDurationIsExact(t *testing.T) {
	m, registry := setup(t)
	o := m.Observe(web)
	for _, d := range []time.Duration{5 * time.Millisecond, 6 * time.Millisecond, 20 * time.Second} {
		k := tick(probe.Success, results.Success)
		k.End = k.Start.Add(d)
		o.Tick(k)
	}
	var want strings.Builder
	want.WriteString(`# HELP prober_probe_duration_seconds Duration of a container's successful probes, with retried attempts. The name and labels are the kubelet's.
# TYPE prober_probe_duration_seconds histogram
`)
	for _, b := range []struct {
		le string
		n  int
	}{{"0.005", 1}, {"0.01", 2}, {"0.025", 2}, {"0.05", 2}, {"0.1", 2}, {"0.25", 2}, {"0.5", 2}, {"1", 2}, {"2.5", 2}, {"5", 2}, {"10", 2}, {"+Inf", 3}} {
		want.WriteString(fmt.Sprintf("prober_probe_duration_seconds_bucket{container=\"web\",namespace=\"default\",pod=\"shop\",probe_type=\"Readiness\",le=%q} %d\n", b.le, b.n))
	}
	want.WriteString(`prober_probe_duration_seconds_sum{container="web",namespace="default",pod="shop",probe_type="Readiness"} 20.011
prober_probe_duration_seconds_count{container="web",namespace="default",pod="shop",probe_type="Readiness"} 3
`)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String()), "prober_probe_duration_seconds"); err != nil {
		t.Error(err)
	}
}

func TestWorkersOfOneProbeShareSeries(t *testing.T) {
	names := []string{"prober_probe_total", "prober_probe_duration_seconds", "prober_workers"}
	t.Run("a worker of the same pod continues the counts of its predecessor", func(t *testing.T) {
		m, registry := setup(t)
		before := m.Observe(web)
		before.Tick(tick(probe.Success, results.Success))
		after := m.Observe(web)
		after.Tick(tick(probe.Success, results.Success))
		before.Close()
		want := []string{
			"prober_probe_duration_seconds{container=web," + shop + ",probe_type=Readiness} 2",
			"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=successful} 2",
			"prober_workers{} 1",
		}
		if diff := cmp.Diff(want, samples(t, registry, names...)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		after.Close()
		if diff := cmp.Diff([]string{"prober_workers{} 0"}, samples(t, registry, names...)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	for order, name := range []string{"the older ends first", "the newer ends first"} {
		t.Run("pods with one name share the duration, which has no UID; "+name, func(t *testing.T) {
			m, registry := setup(t)
			second := web
			second.PodUID = "u2"
			pair := []worker.ProbeObserver{m.Observe(web), m.Observe(second)}
			for _, o := range pair {
				o.Tick(tick(probe.Success, results.Success))
			}
			want := []string{
				"prober_probe_duration_seconds{container=web," + shop + ",probe_type=Readiness} 2",
				"prober_probe_total{container=web," + shop + ",pod_uid=u1,probe_type=Readiness,result=successful} 1",
				"prober_probe_total{container=web," + shop + ",pod_uid=u2,probe_type=Readiness,result=successful} 1",
				"prober_workers{} 2",
			}
			if diff := cmp.Diff(want, samples(t, registry, names...)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			pair[order].Close()
			want = slices.Delete(want, 1+order, 2+order)
			want[2] = "prober_workers{} 1"
			if diff := cmp.Diff(want, samples(t, registry, names...)); diff != "" {
				t.Errorf("after the end of one (-want +got)\n%s", diff)
			}
			pair[1-order].Close()
			if diff := cmp.Diff([]string{"prober_workers{} 0"}, samples(t, registry, names...)); diff != "" {
				t.Errorf("after the end of both (-want +got)\n%s", diff)
			}
		})
	}
}

// Repeated calls of PluginSources leave no gap in the series of plugins that stay.
func TestSourceSeriesHaveNoGap(t *testing.T) {
	m, registry := setup(t)
	m.PluginSources(map[string]bool{"redis": true})
	done := make(chan struct{})
	var noting sync.WaitGroup
	noting.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				m.PluginSources(map[string]bool{"redis": true})
				runtime.Gosched()
			}
		}
	})
	for range 500 {
		n, err := testutil.GatherAndCount(registry, "prober_plugin_source_stale")
		if err != nil || n != 1 {
			t.Errorf("%d series, %v", n, err)
			break
		}
	}
	close(done)
	noting.Wait()
}

func TestOwnMetrics(t *testing.T) {
	m, registry := setup(t)
	o := m.Observe(web)
	changed := tick(probe.Success, results.Success)
	changed.Before, changed.After = results.Failure, results.Success
	o.Tick(changed)
	refused := tick(probe.Failure, results.Failure)
	refused.Outcome.Reason = probe.ReasonConnectRefused
	o.Tick(refused)
	o.Tick(erred(&probe.Error{Reason: probe.ReasonTrap, Err: errors.New("unreachable")}, 3))
	o.Tick(erred(&probe.Error{Reason: probe.ReasonHostStall, Err: errors.New("late")}, 1))
	o.Tick(erred(&probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("no port")}, 3))
	o.Tick(erred(&probe.Error{Reason: "made up", Err: errors.New("x")}, 1))
	other := tick(probe.Warning, results.Success)
	other.Handler = "redis" // a change of the pod gave the probe another handler
	other.Attempts = 3      // the first two ended in errors
	o.Tick(other)
	o.Skipped(worker.SkipBusy, 4)
	o.Skipped("made up", 1)
	m.Restarted("liveness", "default", "shop", "web")
	m.Reloaded(true, time.Unix(1700000000, 500000000))

	want := []string{
		"prober_attempt_errors_total{handler=http,reason=connect_refused} 1",
		"prober_attempt_errors_total{handler=http,reason=host_resources} 3",
		"prober_attempt_errors_total{handler=http,reason=host_stall} 1",
		"prober_attempt_errors_total{handler=http,reason=internal} 1",
		"prober_attempt_errors_total{handler=http,reason=trap} 3",
		"prober_attempts_retried_total{handler=http} 0",
		"prober_attempts_retried_total{handler=redis} 2",
		"prober_config_last_reload_success_timestamp_seconds{} 1.7000000005e+09",
		"prober_config_last_reload_successful{} 1",
		"prober_outcomes_total{handler=http,result=failure} 1",
		"prober_outcomes_total{handler=http,result=success} 1",
		"prober_outcomes_total{handler=http,result=unknown} 4",
		"prober_outcomes_total{handler=http,result=warning} 0",
		"prober_outcomes_total{handler=redis,result=failure} 0",
		"prober_outcomes_total{handler=redis,result=success} 0",
		"prober_outcomes_total{handler=redis,result=unknown} 0",
		"prober_outcomes_total{handler=redis,result=warning} 1",
		"prober_restarts_total{container=web,kind=liveness," + shop + "} 1",
		"prober_runs_skipped_total{reason=busy} 4",
		"prober_runs_skipped_total{reason=no_slot} 0",
		"prober_runs_skipped_total{reason=panic} 0",
		"prober_runs_skipped_total{reason=quarantine} 0",
		"prober_schedule_lag_seconds{} 7",
	}
	if diff := cmp.Diff(want, samples(t, registry, "prober_attempt_errors_total", "prober_attempts_retried_total", "prober_config_last_reload_successful",
		"prober_config_last_reload_success_timestamp_seconds", "prober_outcomes_total", "prober_restarts_total",
		"prober_runs_skipped_total", "prober_schedule_lag_seconds")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	transition := "prober_state_transitions_total{from=failure,kind=readiness,to=success} 1"
	transitions := samples(t, registry, "prober_state_transitions_total")
	if len(transitions) != 18 || !slices.Contains(transitions, transition) {
		t.Errorf("got %v, want 18 lines with %s", transitions, transition)
	}
	build := samples(t, registry, "prober_build_info")
	if want := "prober_build_info{goversion=" + runtime.Version() + ",revision=abc,version=v1} 1"; !slices.Equal(build, []string{want}) {
		t.Errorf("got %v, want %s", build, want)
	}
	m.PluginSources(map[string]bool{"redis": true, "old": false})
	m.PluginSources(map[string]bool{"redis": true, "tls": false})
	if got, want := samples(t, registry, "prober_plugin_source_stale"), []string{
		"prober_plugin_source_stale{plugin=redis} 1", "prober_plugin_source_stale{plugin=tls} 0",
	}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	m.Reloaded(false, time.Now())
	if got := samples(t, registry, "prober_config_last_reload_successful"); got[0] != "prober_config_last_reload_successful{} 0" {
		t.Errorf("after a failed reload: %v", got)
	}
	if err := m.RegisterReload(registry, func() time.Duration { return 1500 * time.Millisecond }); err != nil {
		t.Fatal(err)
	}
	if got := samples(t, registry, "prober_config_reload_in_progress_seconds"); got[0] != "prober_config_reload_in_progress_seconds{} 1.5" {
		t.Errorf("during a reload: %v", got)
	}
	m.Restarted("exit", "\xff", "shop", "web")
	m.PodGone("\xff", "shop", "u1")
	m.PodGone("default", "shop", "u1")
	if got := samples(t, registry, "prober_restarts_total"); len(got) > 0 {
		t.Errorf("after the pod's end there is %v", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	m, registry := setup(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for round := range 200 {
				info := web
				info.PodUID = fmt.Sprint("u", (worker+round)%3)
				o := m.Observe(info)
				o.Tick(tick(probe.Success, results.Success))
				o.Skipped("busy", 1)
				o.Close()
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			if _, err := registry.Gather(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	want := []string{"prober_outcomes_total{handler=http,result=success} 800", "prober_runs_skipped_total{reason=busy} 800", "prober_workers{} 0"}
	got := slices.DeleteFunc(samples(t, registry, "prober_outcomes_total", "prober_runs_skipped_total", "prober_workers", "prober_probe_total", "prober_probe_state", "prober_probe_failures_total",
		"prober_probe_duration_seconds"), func(line string) bool {
		return strings.HasSuffix(line, " 0") && !strings.HasPrefix(line, "prober_workers")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestInFlight(t *testing.T) {
	m, registry := setup(t)
	h := m.CountInFlight(probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		if got := samples(t, registry, "prober_inflight"); got[0] != "prober_inflight{} 1" {
			t.Errorf("inside the attempt: %v", got)
		}
		return probe.Outcome{Result: probe.Success}, nil
	}))
	if _, err := h.Probe(t.Context(), probe.Request{}); err != nil {
		t.Fatal(err)
	}
	if got := samples(t, registry, "prober_inflight"); got[0] != "prober_inflight{} 0" {
		t.Errorf("after the attempt: %v", got)
	}
}

func TestGatesOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := setup(t)
		g, err := group.New[string](group.Config{Observers: []worker.Observer{m}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Shutdown(t.Context())
		want := func(gates ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			got := slices.DeleteFunc(samples(t, registry, "prober_probes_gated"), func(line string) bool { return strings.HasSuffix(line, " 0") })
			for i := range gates {
				gates[i] = "prober_probes_gated{gate=" + gates[i]
			}
			if !slices.Equal(got, gates) {
				t.Errorf("got %q, want %q", got, gates)
			}
		}
		handler := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Result: probe.Success}, nil
		})
		tasks := make(map[string]*worker.Task)
		for _, key := range []string{"a", "b"} { // two probes with the same labels
			task := &worker.Task{Subject: results.Subject{Container: "web"}}
			tasks[key] = task
			if err := g.Add(key, group.Probe{Task: task, Kind: probe.Readiness, Handler: handler, Name: "fake", Spec: probe.Spec{
				Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1,
			}}); err != nil {
				t.Fatal(err)
			}
		}
		want("no_status,kind=readiness} 2")
		for key, task := range tasks {
			task.SetState(worker.Running("run-"+key, time.Now()))
		}
		want()
		if err := g.Pause(group.ID[string]{Key: "b", Task: "web", Kind: probe.Readiness}); err != nil {
			t.Fatal(err)
		}
		want("paused,kind=readiness} 1")
		for _, task := range tasks {
			task.SetState(worker.State{})
		}
		want("no_status,kind=readiness} 2")
	})
}

func TestGates(t *testing.T) {
	m, registry := setup(t)
	check := func(when string, want ...string) {
		t.Helper()
		got := slices.DeleteFunc(samples(t, registry, "prober_probes_gated"), func(line string) bool { return strings.HasSuffix(line, " 0") })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	if got := samples(t, registry, "prober_probes_gated"); len(got) != len(probe.Kinds)*len(worker.Gates()) {
		t.Errorf("%d series without probes", len(got))
	}
	liveness := web
	liveness.Kind = probe.Liveness
	first, other := m.Observe(web).(worker.GateObserver), m.Observe(liveness).(worker.GateObserver)
	first.Gated(worker.NotStarted)
	other.Gated(worker.NotRunning)
	check("both are gated", "prober_probes_gated{gate=container_not_running,kind=liveness} 1", "prober_probes_gated{gate=not_started,kind=readiness} 1")
	first.Gated(worker.Paused)
	other.Gated(worker.Open)
	check("one is gated", "prober_probes_gated{gate=paused,kind=readiness} 1")
	second := m.Observe(web).(worker.GateObserver) // replaces the first
	second.Gated(worker.NoStatus)
	check("two workers of one probe", "prober_probes_gated{gate=no_status,kind=readiness} 1", "prober_probes_gated{gate=paused,kind=readiness} 1")
	first.Gated(worker.Terminating)
	first.Close()
	check("the first has ended", "prober_probes_gated{gate=no_status,kind=readiness} 1")
	second.Close()
	other.Close()
	check("all have ended")
}

func TestPluginMetrics(t *testing.T) {
	m, registry := setup(t)
	second := web
	second.PodUID = "u2" // the same numbers with the same labels
	for _, info := range []worker.Info{web, second} {
		k := tick(probe.Success, results.Success)
		k.Handler = "redis"
		k.Outcome.Metrics = []probe.Metric{
			{Name: "lag", Value: 1.5, Unit: "seconds", Labels: map[string]string{"role": "replica", "pod": "stolen", "not-a-label": "x"}},
			{Name: "bad\xff", Value: math.Inf(1)},
		}
		o := m.Observe(info)
		o.Tick(k)
		k.Outcome.Metrics = nil
		o.Tick(k) // measures nothing, and changes no metric
	}
	want := []string{
		"prober_plugin_metric{container=web,kind=readiness,metric=bad\ufffd,namespace=default,plugin=redis,pod=shop,unit=} +Inf",
		"prober_plugin_metric{container=web,kind=readiness,metric=lag,namespace=default,plugin=redis,pod=shop,role=replica,unit=seconds} 1.5",
	}
	got := samples(t, registry, "prober_plugin_metric")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	o := m.Observe(web)
	o.Tick(tick(probe.Success, results.Success)) // the probe has another handler now
	for _, line := range samples(t, registry, "prober_plugin_metric") {
		if strings.Contains(line, "plugin=http") {
			t.Errorf("%s was measured by redis", line)
		}
	}
}

func TestPluginMetricsAreBounded(t *testing.T) {
	m, registry := setup(t)
	o := m.Observe(web)
	for round := range 3 {
		k := tick(probe.Success, results.Success)
		for i := range 100 {
			k.Outcome.Metrics = append(k.Outcome.Metrics, probe.Metric{Name: fmt.Sprint("m", round, "-", i)})
		}
		o.Tick(k)
	}
	if got := samples(t, registry, "prober_plugin_metric"); len(got) != 64 {
		t.Errorf("%d series, want 64", len(got))
	}
	o.Close()
	if got := samples(t, registry, "prober_plugin_metric"); len(got) != 0 {
		t.Errorf("%d series after the worker's end", len(got))
	}
}

func TestLint(t *testing.T) {
	m, registry := setup(t)
	k := tick(probe.Success, results.Success)
	k.Outcome.Metrics = []probe.Metric{{Name: "lag", Value: 1, Unit: "seconds"}}
	k.Outcome.Reason = probe.ReasonBody
	m.Observe(web).Tick(k)
	m.Restarted("exit", "default", "shop", "web")
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
