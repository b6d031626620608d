//go:build linux

package main

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
)

// TestManifestsMatchLayout compares the manifests with the probes that the ledger expects.
func TestManifestsMatchLayout(t *testing.T) {
	var all targets
	l := layout{2}
	for p := range ports {
		all.Ports[p] = 10000 + int(p)
	}
	for pod := range 2 * filePods {
		for generation := range 2 {
			var got v1.Pod
			if err := yaml.UnmarshalStrict([]byte(l.manifest(&all, pod, generation)), &got); err != nil {
				t.Fatalf("%v\n%s", err, l.manifest(&all, pod, generation))
			}
			found, errs := declared.ProbesOf(&got)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			want := l.probesOf(pod, generation)
			if len(found) != len(want) {
				t.Errorf("%s has %d probes, want %d", got.Name, len(found), len(want))
			}
			for _, p := range want {
				checkProbe(t, got.Name, p, found)
			}
		}
	}
}

func checkProbe(t *testing.T, pod string, want probe, found []manager.ProbeConfig) {
	t.Helper()
	for _, c := range found {
		if c.Container != want.container || c.Kind.String() != want.kind {
			continue
		}
		if c.Handler != want.handler || c.Spec.Period != want.period || c.Spec.Timeout != want.timeout ||
			c.Spec.SuccessThreshold != want.success || c.Spec.FailureThreshold != want.fail {
			t.Errorf("%s: %+v, want %+v", pod, c, want)
		}
		return
	}
	t.Errorf("%s has no %s probe of %s", pod, want.kind, want.container)
}

// TestTimeoutsEndBeforeNextTick: otherwise a fault of a target would make the agent skip ticks.
func TestTimeoutsEndBeforeNextTick(t *testing.T) {
	l := layoutOf(20_000)
	for pod := range 10 * filePods {
		for _, p := range l.probesOf(pod, 0) {
			if p.timeout > p.period || p.faulty && p.timeout >= p.period || p.timeout < time.Second {
				t.Errorf("%s of %s: timeout %v, period %v", p.kind, p.container, p.timeout, p.period)
			}
		}
	}
}

func TestLoadIsBounded(t *testing.T) {
	for _, probes := range []int{fullLoad, 10_000, 20_000, 500_000} {
		l, rate := layoutOf(probes), 0.0
		for pod := range probes / podProbes {
			for _, p := range l.probesOf(pod, 0)[1:] { // startup probes end
				rate += 1 / p.period.Seconds()
			}
		}
		if rate < 300 || rate > 500 {
			t.Errorf("%d probes: %.0f ticks a second, want 300 to 500", probes, rate)
		}
	}
}
