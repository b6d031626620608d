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
	var o restarts
	for _, w := range twins {
		c.AwaitPod(t, ns, w.Name, "restarted once at least", func(*corev1.Pod) bool { return len(answersOf(t, w.Pod, "kubelet")) > 1 })
		o.add(t, w, func() []change { return watch.of(w.Name, live) })
	}
	t.Logf("%d restarts of %d pods, %d of apps that did not listen yet, %d excused for irregular attempts", len(o.decided), len(twins), o.early, o.excused)
	t.Log("kubelet, from the answer that decides to SIGTERM:       ", spread(o.kubelet))
	t.Log("prober,  from the answer that decides to the condition: ", spread(o.ours))
	t.Log("prober after the kubelet, decided:                      ", spread(o.decided))
	if 2*len(o.decided) < len(twins) || 4*o.excused > len(twins) {
		t.Error("too few restarts can be compared")
	}
}

// restarts is what was measured of them.
type restarts struct {
	early, excused int
	kubelet, ours  []time.Duration // from the answer that decides to SIGTERM, and to the condition
	decided        []time.Duration // by the agent after the kubelet
}

// add compares the restarts of a pod with what the agent has told.
func (o *restarts) add(t *testing.T, w *twin, told func() []change) {
	t.Helper()
	kills, asked, seen := terminations(t, w.Pod), answersOf(t, w.Pod, "kubelet"), answersOf(t, w.Pod, "prober")
	var expected []change
	for start := range min(len(asked)-1, len(kills), len(seen)) {
		failed := -1 // index of the first failure of this start
		for _, e := range decide(seen[start], w.failures, 1) {
			if n := len(expected); e.to != (n > 0 && expected[n-1].to) {
				expected = append(expected, e)
				if failed < 0 && !e.to {
					failed = n
				}
			}
		}
		text := fmt.Sprintf("%s, threshold %d, start %d\nkubelet %s\nprober  %s", w.Name, w.failures, start, marks(asked[start]), marks(seen[start]))
		decided := decide(asked[start], w.failures, 1)
		switch {
		case len(asked[start]) < w.failures || !slices.ContainsFunc(asked[start], func(a answer) bool { return a.ok }):
			o.early++
			return
		case len(decided) != 2 || failed < 0:
			t.Error("no failure follows from the answers: " + text)
			return
		}
		bed.Await(t, "the condition of "+w.Name, func() bool { return len(told()) > failed })
		is, between := told()[failed], expected[failed].at.Sub(decided[1].at)
		o.kubelet = append(o.kubelet, kills[start].Sub(decided[1].at))
		o.ours = append(o.ours, is.at.Sub(expected[failed].at))
		o.decided = append(o.decided, between)
		if is.to || is.at.Before(expected[failed].at) {
			t.Errorf("told%s, and what follows from the answers is%s: %s", times(told()), times(expected), text)
		}
		if between.Abs() <= period+300*time.Millisecond {
			continue
		}
		if irregular(asked[start])+irregular(seen[start]) == 0 {
			t.Errorf("decided %v apart: %s", between, text)
			continue
		}
		o.excused++
		t.Logf("decided %v apart: %s", between, text)
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
