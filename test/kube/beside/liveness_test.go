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

// TestLivenessBesideKubelet runs apps that fail by schedules. The kubelet restarts them, and the agent
// observes them. For each restart, both must have decided a failure from the answers that they got, within
// a period.
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
			// The app keeps answering after SIGTERM, so that the agent gets as many failures as the kubelet.
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
		c.AwaitPod(t, ns, w.Name, "restarted at least once", func(*corev1.Pod) bool { return len(answersOf(t, w.Pod, "kubelet")) > 1 })
		o.add(t, w, func() []change { return watch.changesOf(w.Name, live) })
	}
	t.Logf("%d restarts of %d pods, %d of apps that did not listen yet, %d excused for irregular attempts", len(o.decided), len(twins), o.early, o.excused)
	t.Log("kubelet, from the deciding answer to SIGTERM:       ", spread(o.kubelet))
	t.Log("prober,  from the deciding answer to the condition: ", spread(o.ours))
	t.Log("prober after the kubelet, decided:                  ", spread(o.decided))
	if 2*len(o.decided) < len(twins) || 4*o.excused > len(twins) {
		t.Error("too few restarts can be compared")
	}
}

// restarts has the measurements of all restarts.
type restarts struct {
	early, excused int
	kubelet, ours  []time.Duration // from the deciding answer to SIGTERM, and to the condition
	decided        []time.Duration // from the kubelet's deciding answer to the agent's
}

// add compares the restarts of a pod with the changes of its condition, which shown returns.
func (o *restarts) add(t *testing.T, w *twin, shown func() []change) {
	t.Helper()
	kills, toKubelet, toAgent := terminations(t, w.Pod), answersOf(t, w.Pod, "kubelet"), answersOf(t, w.Pod, "prober")
	var expected []change
	for start := range min(len(toKubelet)-1, len(kills), len(toAgent)) {
		failed := -1 // index of the first failure of this start
		for _, e := range decide(toAgent[start], w.failures, 1) {
			if n := len(expected); e.to != (n > 0 && expected[n-1].to) {
				expected = append(expected, e)
				if failed < 0 && !e.to {
					failed = n
				}
			}
		}
		text := fmt.Sprintf("%s, threshold %d, start %d\nkubelet %s\nprober  %s", w.Name, w.failures, start, marks(toKubelet[start]), marks(toAgent[start]))
		decided := decide(toKubelet[start], w.failures, 1)
		switch {
		case len(toKubelet[start]) < w.failures || !slices.ContainsFunc(toKubelet[start], func(a answer) bool { return a.ok }):
			o.early++
			return
		case len(decided) != 2 || failed < 0:
			t.Error("the answers do not lead to a failure: " + text)
			return
		}
		bed.Await(t, "the condition of "+w.Name, func() bool { return len(shown()) > failed })
		got, between := shown()[failed], expected[failed].at.Sub(decided[1].at)
		o.kubelet = append(o.kubelet, kills[start].Sub(decided[1].at))
		o.ours = append(o.ours, got.at.Sub(expected[failed].at))
		o.decided = append(o.decided, between)
		if got.to || got.at.Before(expected[failed].at) {
			t.Errorf("shown%s, want%s: %s", times(shown()), times(expected), text)
		}
		if between.Abs() <= period+300*time.Millisecond {
			continue
		}
		if irregular(toKubelet[start])+irregular(toAgent[start]) == 0 {
			t.Errorf("decided %v apart: %s", between, text)
			continue
		}
		o.excused++
		t.Logf("decided %v apart: %s", between, text)
	}
}

// terminations returns when the container of a pod got SIGTERM, for each of its starts except the last.
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
