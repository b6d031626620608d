package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// resting is the error of a handler that has quarantined its probe.
type resting struct{ until time.Time }

func (resting) Error() string                 { return "trap" }
func (r resting) QuarantinedUntil() time.Time { return r.until }

func keep(bytes int64) func(*manager.Config) {
	return func(cfg *manager.Config) { cfg.History = bytes }
}

func TestProbes(t *testing.T) {
	bubble(t, "status of a probe", func(t *testing.T) {
		r := newRig(t, herd, keep(1<<20))
		step := probetest.Step{Outcome: probe.Outcome{
			Result: probe.Failure, Output: "bad", Metrics: []probe.Metric{{Name: "lag", Value: 3, Unit: "s"}}, Details: `{"a":1}`,
		}}
		r.always(probetest.NewHandler(success, step.After(250*ms)))
		pod := podOf("u", container("web", probe.Readiness))
		p := pod.Spec.Containers[0].ReadinessProbe
		p.FailureThreshold, p.InitialDelaySeconds = 2, 0
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		start := time.Now()
		r.add(pod)
		r.wait(1500 * ms)
		second := manager.TickStatus{
			Result: probe.Failure, Output: "bad", Attempts: 1, Time: start.Add(time.Second), Duration: 250 * ms,
			Metrics: []probe.Metric{{Name: "lag", Value: 3, Unit: "s"}},
		}
		last := second
		last.Details = `{"a":1}`
		want := []manager.ProbeStatus{{
			Namespace: "ns", Pod: "pod-u", UID: "u", Container: "web", ContainerID: "c1", Kind: probe.Readiness, Handler: "exec", Target: "exec 10.0.0.1",
			Result: results.Success, Run: 1,
			Spec: probe.Spec{Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 2},
			Last: &last, Next: start.Add(2 * time.Second),
			History: []manager.TickStatus{second, {Result: probe.Success, Output: "ok", Attempts: 1, Time: start}},
		}}
		if diff := cmp.Diff(want, r.m.Probes()); diff != "" {
			t.Error(diff)
		}
	})
	bubble(t, "status after an error, and on hold", func(t *testing.T) {
		r := newRig(t, herd)
		r.always(probetest.NewHandler(probetest.Error(errors.New("boom")), probetest.Error(errors.New("boom")), probetest.Error(errors.New("boom")), failure))
		pod := podOf("u", container("web", probe.Liveness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		s := r.status("u", "web", probe.Liveness)
		if s.Last.Error != "boom" || s.Last.Attempts != 3 || s.Last.Result != probe.Unknown || s.Run != 0 || s.OnHold {
			t.Errorf("got %+v, last %+v", s, s.Last)
		}
		r.wait(time.Second)
		if s = r.status("u", "web", probe.Liveness); !s.OnHold || s.Result != results.Failure || s.Last.Error != "" {
			t.Errorf("got %+v, last %+v", s, s.Last)
		}
	})
	bubble(t, "quarantine has its end in the status, and one event", func(t *testing.T) {
		r := newRig(t, herd, keep(1<<20))
		rests := probetest.Error(resting{time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)})
		r.always(probetest.NewHandler(rests, rests, rests, failure))
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		const text = "in quarantine until 2030-01-02T03:04:05Z: trap"
		s := r.status("u", "web", probe.Readiness)
		if s.Last == nil || s.Last.Error != text || s.Last.Result != probe.Unknown || s.History[0].Error != "trap" {
			t.Errorf("got %+v, last %+v", s, s.Last)
		}
		if got := r.sent(); len(got) != 2 || !strings.Contains(got[1], "Warning ProbeQuarantined") || !strings.HasSuffix(got[1], "Readiness probe is "+text) {
			t.Errorf("events %q", got)
		}
		r.wait(time.Second)
		if s := r.status("u", "web", probe.Readiness); s.Last.Error != "" {
			t.Errorf("after a verdict: %+v", s.Last)
		}
	})
}

func TestProbeAndSelect(t *testing.T) {
	bubble(t, "one probe is as in the list", func(t *testing.T) {
		r := newRig(t, keep(1<<20))
		r.add(podOf("a", container("web", probe.Kinds[:]...)))
		r.add(podOf("b", container("web", probe.Readiness)))
		for _, want := range r.m.Probes() {
			got, ok := r.m.Probe(want.Key())
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("%v: %t %s", want.Key(), ok, diff)
			}
			want.History = nil
			got, ok = r.m.Latest(want.Key())
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("latest of %v: %t %s", want.Key(), ok, diff)
			}
		}
		r.m.RemovePod(podOf("b", container("web", probe.Readiness)))
		if got, ok := r.m.Probe(manager.Key{PodUID: "b", Container: "web", Kind: probe.Readiness}); ok {
			t.Errorf("a removed probe has a state: %+v", got)
		}
		if got, ok := r.m.Latest(manager.Key{PodUID: "b", Container: "web", Kind: probe.Readiness}); ok {
			t.Errorf("a removed probe has a latest state: %+v", got)
		}
	})
	bubble(t, "only the probes that match are selected", func(t *testing.T) {
		r := newRig(t)
		r.add(podOf("a", container("web", probe.Kinds[:]...)))
		r.add(podOf("b", container("web", probe.Readiness), container("db", probe.Readiness)))
		got := r.m.Select(func(i *worker.Info) bool { return i.PodUID == "b" && i.Container == "web" })
		want := []worker.Info{{
			Subject: results.Subject{Namespace: "ns", Pod: "pod-b", PodUID: "b", Container: "web"}, Kind: probe.Readiness, Handler: "exec",
			PodMeta: &probe.Pod{Namespace: "ns", Name: "pod-b", UID: "b"},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got = r.m.SelectPod("b", func(i *worker.Info) bool { return i.Container == "web" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of the pod: %s", diff)
		}
		if got := r.m.SelectPod("c", func(*worker.Info) bool { return true }); len(got) > 0 {
			t.Errorf("of an unknown pod: %+v", got)
		}
	})
}

func TestListOfProbes(t *testing.T) {
	bubble(t, "probe that never ran has no last tick", func(t *testing.T) {
		r := newRig(t, keep(1<<20))
		r.add(podOf("u", container("web", probe.Kinds[:]...)))
		for _, p := range r.m.Probes() {
			want := map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}
			if p.Last != nil || len(p.History) != 0 || p.Result != want[p.Kind] || p.ContainerID != "" {
				t.Errorf("got %+v", p)
			}
		}
	})
	bubble(t, "list is sorted by namespace, pod, container and kind", func(t *testing.T) {
		r := newRig(t)
		for _, uid := range []string{"b", "a", "c"} {
			pod := podOf(uid, container("z", probe.Startup, probe.Liveness), container("y", probe.Readiness))
			if uid == "c" {
				pod.Namespace = "a-first"
			}
			r.add(pod)
		}
		var got []string
		for _, p := range r.m.Probes() {
			got = append(got, fmt.Sprint(p.Namespace, " ", p.Pod, " ", p.Container, " ", p.Kind))
		}
		want := []string{
			"a-first pod-c y readiness", "a-first pod-c z liveness", "a-first pod-c z startup",
			"ns pod-a y readiness", "ns pod-a z liveness", "ns pod-a z startup",
			"ns pod-b y readiness", "ns pod-b z liveness", "ns pod-b z startup",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// past returns the outputs in the history of the only probe, newest first.
func (r *rig) past() (outputs []string) {
	for _, h := range r.m.Probes()[0].History {
		outputs = append(outputs, h.Output)
	}
	return outputs
}

func historyRig(t *testing.T, budget int64, steps ...probetest.Step) *rig {
	r := newRig(t, herd, keep(budget))
	r.always(probetest.NewHandler(steps...))
	pod := podOf("u", container("web", probe.Readiness))
	r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
	r.add(pod)
	return r
}

func numbered(result probe.Result, from, n int) (steps []probetest.Step) {
	for i := range n {
		steps = append(steps, probetest.Answer(result, fmt.Sprint(from+i)))
	}
	return steps
}

func TestHistory(t *testing.T) {
	bubble(t, "no history without a budget", func(t *testing.T) {
		r := historyRig(t, 0, numbered(probe.Success, 1, 5)...)
		r.wait(3 * time.Second)
		if got := r.past(); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		if got := r.m.Probes()[0].Last.Output; got != "4" {
			t.Errorf("last output %q", got)
		}
	})
	bubble(t, "history has the last 20 ticks, newest first", func(t *testing.T) {
		r := historyRig(t, 1<<20, numbered(probe.Success, 1, 30)...)
		r.wait(29 * time.Second)
		got := r.past()
		if len(got) != 20 || got[0] != "30" || got[19] != "11" {
			t.Errorf("got %v", got)
		}
	})
	bubble(t, "successes are removed before failures", func(t *testing.T) {
		steps := slices.Concat(numbered(probe.Failure, 1, 3), numbered(probe.Success, 100, 30))
		r := historyRig(t, 1<<20, steps...)
		r.wait(32 * time.Second)
		got := r.past()
		if len(got) != 20 || got[0] != "129" || !slices.Equal(got[17:], []string{"3", "2", "1"}) {
			t.Errorf("got %v", got)
		}
	})
	bubble(t, "long outputs are kept, and kept in memory, for the last tick only", func(t *testing.T) {
		long := strings.Repeat("x", 1000)
		r := historyRig(t, 1<<20, probetest.Answer(probe.Failure, long))
		r.wait(2 * time.Second)
		s := r.m.Probes()[0]
		if len(s.Last.Output) != 1000 {
			t.Errorf("last output: %d bytes", len(s.Last.Output))
		}
		for i, h := range s.History {
			if len(h.Output) != 256 || unsafe.StringData(h.Output) == unsafe.StringData(long) {
				t.Errorf("history %d: %d bytes, as part of the whole output", i, len(h.Output))
			}
		}
	})
}

func TestHistoryOfAllProbes(t *testing.T) {
	bubble(t, "all probes share the budget", func(t *testing.T) {
		const budget = 64 << 10
		r := newRig(t, herd, keep(budget))
		r.always(probetest.NewHandler(probetest.Answer(probe.Failure, strings.Repeat("x", 256))))
		for i := range 100 {
			pod := podOf(fmt.Sprint(i), container("web", probe.Readiness))
			r.store.SetPodStatus(pod, statusOf(running("web", fmt.Sprint("c", i))))
			r.add(pod)
		}
		r.wait(25 * time.Second)
		total := 0
		for _, p := range r.m.Probes() {
			for _, h := range p.History[1:] { // the first is the last tick, which is always kept
				total += len(h.Output)
			}
		}
		if total > budget || total == 0 {
			t.Errorf("%d bytes of past output, the budget is %d", total, budget)
		}
	})
	bubble(t, "changes by a reader do not change the history", func(t *testing.T) {
		r := historyRig(t, 1<<20, success)
		r.wait(2 * time.Second)
		got := r.m.Probes()[0]
		got.History[1].Output, got.Last.Output = "changed", "changed"
		if diff := cmp.Diff([]string{"ok", "ok", "ok"}, r.past()); diff != "" || r.m.Probes()[0].Last.Output != "ok" {
			t.Error(diff)
		}
	})
	bubble(t, "Probes may be called while probes run", func(t *testing.T) {
		r := historyRig(t, 1<<20, success)
		for range 100 {
			time.Sleep(333 * ms)
			if got := r.m.Probes(); len(got) != 1 {
				t.Fatalf("%d probes", len(got))
			}
		}
		synctest.Wait()
	})
}
