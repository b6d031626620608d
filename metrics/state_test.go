package metrics_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

const ofWeb = "container=web,kind=readiness,namespace=default,pod=shop"

// decided returns a tick with the decided result result.
func decided(r probe.Result, result results.Result) *worker.Tick {
	t := tick(r, result)
	t.After = result
	return t
}

func TestProbeState(t *testing.T) {
	m, registry := setup(t)
	want := func(when string, o worker.Info, state string) {
		t.Helper()
		kind := o.Kind.String()
		var lines []string
		for _, s := range []string{"failure", "success", "unknown", "warning"} {
			value := "0"
			if s == state {
				value = "1"
			}
			if s == state || s == "failure" || s == "success" {
				lines = append(lines, "prober_probe_state{container=web,kind="+kind+",namespace=default,pod="+o.Pod+",state="+s+"} "+value)
			}
		}
		got := slices.DeleteFunc(samples(t, registry, "prober_probe_state"), func(line string) bool { return !strings.Contains(line, "kind="+kind+",") })
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	liveness, startup := web, web
	liveness.Kind, startup.Kind = probe.Liveness, probe.Startup
	ready, live, started := m.Observe(web), m.Observe(liveness), m.Observe(startup)
	for _, o := range []worker.Info{web, liveness, startup} {
		want("a new probe", o, "unknown")
	}
	ready.Tick(decided(probe.Success, results.Success))
	live.Tick(decided(probe.Failure, results.Failure))
	started.Tick(decided(probe.Warning, results.Success))
	want("a readiness probe that has succeeded", web, "success")
	want("a liveness probe that has failed", liveness, "failure")
	want("a startup probe that has warned", startup, "warning")
	below := tick(probe.Failure, results.Failure)
	below.Before, below.After, below.Threshold = results.Success, results.Success, 9
	ready.Tick(below)
	want("a failure below the threshold", web, "success")
	failed := erred(errors.New("broken"), 3)
	failed.After = results.Success
	for _, state := range []string{"success", "success", "unknown"} {
		want("an error", web, "success")
		ready.Tick(failed)
		want("another error", web, state)
	}
	ready.(worker.GateObserver).Gated(worker.NotRunning)
	want("without an attempt", web, "failure")
	live.Tick(decided(probe.Success, results.Success))
	for range 3 {
		live.Skipped(worker.SkipPanic, 1)
	}
	want("a handler that panics", liveness, "unknown")

	next := m.Observe(web)
	want("another worker without ticks", web, "failure")
	next.Tick(decided(probe.Success, results.Success))
	ready.Close()
	want("another worker with a tick", web, "success")
	third := m.Observe(web)
	third.Tick(below)
	want("a third one that has decided nothing", web, "unknown")
	next.Close()
	third.Close()
	first, second := m.Observe(web), m.Observe(web)
	first.Tick(decided(probe.Success, results.Success))
	want("the first of two", web, "success")
	first.Close()
	want("the second of two", web, "unknown")
	second.Close()
	if got := samples(t, registry, "prober_probe_state"); len(got) != 3+3 {
		t.Errorf("after the end of a probe there is %v", got)
	}
}

// A pod that replaces another with the same name has the same labels.
func TestProbeStateOfPodsOfOneNameIsTheNewest(t *testing.T) {
	for _, uid := range []string{"u0", "u2"} { // sorted before and after the older pod's UID
		m, registry := setup(t)
		other := web
		other.PodUID = uid
		old := m.Observe(web)
		old.Tick(decided(probe.Success, results.Success))
		renewed := m.Observe(other)
		renewed.(worker.GateObserver).Gated(worker.InitialDelay)
		old.(worker.GateObserver).Gated(worker.Paused)
		want := []string{
			"prober_probe_gate{container=web,gate=initial_delay,kind=readiness,namespace=default,pod=shop} 1",
			"prober_probe_state{" + ofWeb + ",state=failure} 0",
			"prober_probe_state{" + ofWeb + ",state=success} 0",
			"prober_probe_state{" + ofWeb + ",state=unknown} 1",
		}
		if diff := cmp.Diff(want, samples(t, registry, "prober_probe_state", "prober_probe_gate")); diff != "" {
			t.Errorf("UID %s (-want +got)\n%s", uid, diff)
		}
	}
}

func TestProbeGate(t *testing.T) {
	m, registry := setup(t)
	want := func(when string, gates ...string) {
		t.Helper()
		for i := range gates {
			gates[i] = "prober_probe_gate{container=web,gate=" + gates[i] + ",kind=readiness,namespace=default,pod=shop} 1"
		}
		if got := samples(t, registry, "prober_probe_gate"); !slices.Equal(got, gates) {
			t.Errorf("%s: got %q, want %q", when, got, gates)
		}
	}
	first := m.Observe(web).(worker.GateObserver)
	want("a new probe")
	for _, gate := range worker.Gates() {
		first.Gated(gate)
		want("a gate", strings.ReplaceAll(gate.String(), " ", "_"))
	}
	first.Gated(worker.Open)
	want("open")
	first.Gated(worker.Paused)
	second := m.Observe(web)
	second.Close() // it was not started, since the probe exists
	want("after an end of another worker", "paused")
	second = m.Observe(web)
	second.Tick(tick(probe.Success, results.Success))
	want("another worker makes attempts")
	first.Close()
	resting := tick(probe.Success, results.Success)
	resting.Quarantined = time.Unix(1, 0)
	second.Tick(resting)
	second.(worker.GateObserver).Gated(worker.Quarantined)
	second.Tick(resting)
	want("in quarantine", "quarantined")
	second.Close()
	want("after the end")
	if got := samples(t, registry, "prober_probes_gated"); strings.Contains(strings.Join(got, " "), "} 1") {
		t.Errorf("probes that have ended are counted: %v", got)
	}
}

func TestProbeFailures(t *testing.T) {
	m, registry := setup(t)
	o := m.Observe(web)
	want := func(when string, reasons ...string) {
		t.Helper()
		for i := range reasons {
			reasons[i] = "prober_probe_failures_total{container=web,kind=readiness,namespace=default,pod=shop,reason=" + reasons[i]
		}
		if diff := cmp.Diff(reasons, samples(t, registry, "prober_probe_failures_total")); diff != "" && len(reasons) > 0 {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	o.Tick(tick(probe.Success, results.Success))
	warning := tick(probe.Warning, results.Success)
	warning.Outcome.Reason = probe.ReasonBody
	o.Tick(warning)
	if got := samples(t, registry, "prober_probe_failures_total"); len(got) > 0 {
		t.Errorf("without a failure there is %v", got)
	}
	for range 2 {
		o.Tick(tick(probe.Failure, results.Failure))
	}
	refused := tick(probe.Failure, results.Failure)
	refused.Outcome.Reason = probe.ReasonConnectRefused
	o.Tick(refused)
	strict := tick(probe.Warning, results.Failure) // by warningIsFailure
	strict.Outcome.Reason = probe.ReasonBody
	o.Tick(strict)
	o.Tick(erred(&probe.Error{Reason: probe.ReasonTrap, Err: errors.New("unreachable")}, 3))
	o.Tick(erred(&probe.Error{Reason: "made up", Err: errors.New("x")}, 1))
	all := []string{"body} 1", "connect_refused} 1", "internal} 1", "none} 2", "trap} 1"}
	want("after failures", slices.Clone(all)...)

	twin := web
	twin.PodUID = "u2"
	second := m.Observe(twin)
	second.Tick(refused)
	all[1] = "connect_refused} 2"
	want("two pods of one name", slices.Clone(all)...)
	o.Close()
	want("one of them has ended", slices.Clone(all)...)
	second.Close()
	if got := samples(t, registry, "prober_probe_failures_total"); len(got) > 0 {
		t.Errorf("after the end of both there is %v", got)
	}
}

func TestPodReadyAndPauses(t *testing.T) {
	m, registry := setup(t)
	if err := metrics.RegisterPauses(registry, func() iter.Seq[worker.Info] {
		twin := web
		twin.PodUID = "u2"
		return slices.Values([]worker.Info{web, twin})
	}); err != nil {
		t.Fatal(err)
	}
	m.PodReady("default", "shop", "u1", false)
	m.PodReady("default", "web", "u2", true)
	m.PodReady("default", "old", "u3", true)
	m.PodGone("default", "old", "u3")
	m.PodReady("default", "new", "u4", false)
	m.PodReady("default", "shop", "u5", true)
	m.PodGone("default", "shop", "u1") // the end of the previous pod
	m.PodGone("default", "unknown", "")
	want := []string{
		"prober_paused{" + ofWeb + "} 1", "prober_ready{namespace=default,pod=new} 0",
		"prober_ready{namespace=default,pod=shop} 1", "prober_ready{namespace=default,pod=web} 1",
	}
	if diff := cmp.Diff(want, samples(t, registry, "prober_ready", "prober_paused")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCertificateThatEndsFirstOfTwins(t *testing.T) {
	_, registry := setup(t)
	at := func(begin, end int64) metrics.Certificate {
		return metrics.Certificate{Namespace: web.Namespace, Pod: web.Pod, Container: web.Container, Kind: web.Kind, NotBefore: time.Unix(begin, 0), NotAfter: time.Unix(end, 0)}
	}
	if err := metrics.RegisterCertificates(registry, func() iter.Seq[metrics.Certificate] {
		return slices.Values([]metrics.Certificate{at(10, 300), at(20, 200), at(30, 400)})
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"prober_certificate_not_after_timestamp_seconds{" + ofWeb + "} 200", "prober_certificate_not_before_timestamp_seconds{" + ofWeb + "} 20"}
	if diff := cmp.Diff(want, samples(t, registry, "prober_certificate_not_after_timestamp_seconds", "prober_certificate_not_before_timestamp_seconds")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
