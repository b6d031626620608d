//go:build linux

package beside

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

// TestLivenessBesideKubelet has the kubelet restart apps that fail by schedules, and the agent observe them.
// For each restart, both must have decided a failure by the answers that they got, within a period.
func TestLivenessBesideKubelet(t *testing.T) {
	const live = "prober.dev/live"
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	c.StartAgent(t, bed.AgentConfig{Namespace: ns, Config: closed})
	watch := startWatch(t, c, ns, live)
	var twins []*twin
	for n := range *schedules {
		w := newTwin("liveness", *seed+uint64(n), n%3, func(pod *corev1.Pod, probe *corev1.Probe) {
			pod.Spec.Containers[0].LivenessProbe = probe
			// The app answers on while it ends, so that the agent sees as many failures as the kubelet.
			env := &pod.Spec.Containers[0].Env
			*env = append(*env, corev1.EnvVar{Name: "TERM_DELAY", Value: "3s"}, corev1.EnvVar{Name: "SICK_ON_TERM", Value: "1"})
			pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
		})
		w.Pod = c.Create(t, ns, w.Pod)
		twins = append(twins, w)
	}
	<-time.After(*lasting)
	var kubelet, ours, apart []time.Duration
	excused := 0
	for _, w := range twins {
		c.AwaitPod(t, ns, w.Name, "restarted once at least", func(*corev1.Pod) bool { return len(answersOf(t, w.Pod, "kubelet")) > 1 })
		kills := terminations(t, w.Pod)
		asked, seen := answersOf(t, w.Pod, "kubelet"), answersOf(t, w.Pod, "prober")
		var expected []change
		for life := range min(len(asked)-1, len(kills)) {
			for _, e := range decide(seen[life], w.failures, 1) {
				if n := len(expected); e.to != (n > 0 && expected[n-1].to) {
					expected = append(expected, e)
				}
			}
			decided := decide(asked[life], w.failures, 1)
			if len(decided) != 2 || len(expected) != 2*life+2 {
				t.Errorf("%s, threshold %d: start %d was ended after the answers\nkubelet %s\nprober  %s", w.Name, w.failures, life, marks(asked[life]), marks(seen[life]))
				continue
			}
			var told []change
			bed.Await(t, "the condition of "+w.Name, func() bool {
				told = watch.of(w.Name, live)
				return len(told) >= len(expected)
			})
			last := len(expected) - 1
			kubelet = append(kubelet, kills[life].Sub(decided[1].at))
			ours = append(ours, told[last].at.Sub(expected[last].at))
			between := told[last].at.Sub(kills[life])
			apart = append(apart, between)
			switch odd := irregular(asked[life]) + irregular(seen[life]); {
			case told[last].to || told[last].at.Before(expected[last].at):
				t.Errorf("%s: told%s, and what follows from the answers is%s", w.Name, times(told), times(expected))
			case between.Abs() > period+300*time.Millisecond && odd == 0:
				t.Errorf("%s, threshold %d: the condition is false %v after SIGTERM\nkubelet %s\nprober  %s", w.Name, w.failures, between, marks(asked[life]), marks(seen[life]))
			case between.Abs() > period+300*time.Millisecond:
				excused++
				t.Logf("%s, threshold %d: the condition is false %v after SIGTERM\nkubelet %s\nprober  %s", w.Name, w.failures, between, marks(asked[life]), marks(seen[life]))
			}
		}
	}
	t.Logf("%d restarts of %d pods, %d excused for irregular attempts", len(apart), len(twins), excused)
	t.Log("kubelet, from the answer that decides to SIGTERM:          ", spread(kubelet))
	t.Log("prober,  from the answer that decides to the condition:    ", spread(ours))
	t.Log("the condition of prober after the SIGTERM of the kubelet: ", spread(apart))
	if len(apart) < len(twins) || 4*excused > len(apart) {
		t.Error("too few restarts can be compared")
	}
}

// terminations returns when the starts of the container of a pod got SIGTERM, for all of them but the last.
func terminations(t *testing.T, pod *corev1.Pod) (all []time.Time) {
	t.Helper()
	for n := 0; ; n++ {
		data, err := os.ReadFile(filepath.Join("/var/log/pods", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), "app", fmt.Sprint(n, ".log")))
		if err != nil {
			return all
		}
		lines := strings.Split(string(data), "\n")
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasSuffix(line, " got terminated") })
		if i < 0 {
			return all
		}
		stamp, _, _ := strings.Cut(lines[i], " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, at)
	}
}
