//go:build linux

package beside

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/test/kube/bed"
)

var (
	schedules = flag.Int("schedules", 9, "schedules of failures, each for a pod")
	batch     = flag.Int("batch", 25, "pods at the same time")
	seed      = flag.Uint64("seed", 1, "of the first schedule")
	record    = flag.String("record", "", "file for the answers and changes, which test/oracle has as testdata/recorded.json")
	lasting   = flag.Duration("lasting", 20*time.Second, "how long the apps fail by their schedules")
)

const gate = "prober.dev/ready"

// closed is a prober.yaml whose breaker stays closed, though most probes fail.
const closed = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  breaker: {share: 1, least: 100000, lag: 1h, pressure: {cpu: 100, memory: 100, io: 100}}
`

const period = time.Second // the kubelet has no shorter one

// twin is a pod that the kubelet and the agent probe alike.
type twin struct {
	*corev1.Pod
	failures, successes int // thresholds
}

// steps returns a length of the steps of a schedule with which no phase of a probe decides whether it
// reaches its thresholds. In a time d, a probe gets at most d/period+1 answers, and at least d/period
// rounded down; so no run of steps may last from threshold-1 to threshold periods.
func steps(failures, successes int) time.Duration {
	switch two, three := failures == 2 || successes == 2, failures == 3 || successes == 3; {
	case two && three:
		return 3300 * time.Millisecond
	case two:
		return 2400 * time.Millisecond
	case three: // one step is too short, two are enough
		return 1650 * time.Millisecond
	default:
		return 1300 * time.Millisecond
	}
}

// apart returns how much later one of both may decide: a period. The kubelet asks again at once when a pod is
// not ready and its status changes, and each such answer counts towards the threshold of success.
func (w *twin) apart(ready bool) time.Duration {
	if ready {
		return period * time.Duration(w.successes)
	}
	return period
}

// newTwin returns a pod with a probe of a kind by both.
func newTwin(kind string, seed uint64, n int, change func(pod *corev1.Pod, probe *corev1.Probe)) *twin {
	w := &twin{failures: 1 + n%3, successes: 1 + n/3%3}
	step := steps(w.failures, w.successes)
	w.Pod = bed.Pod(fmt.Sprintf("seed-%d", seed), map[string]string{"SEED": fmt.Sprint(seed), "STEP": step.String(), "LOG": "1"})
	probe := &corev1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 10, // an answer always counts
		FailureThreshold: int32(w.failures), SuccessThreshold: int32(w.successes),
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz?by=kubelet", Port: intstr.FromInt32(8080)}},
	}
	change(w.Pod, probe)
	w.Annotations = map[string]string{
		"prober.dev/conditions": "true",
		"prober.dev/probes": fmt.Sprintf("app: {%s: {httpGet: {path: '/healthz?by=prober', port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: %d, successThreshold: %d}}",
			kind, probe.FailureThreshold, probe.SuccessThreshold),
	}
	return w
}

// TestReadinessBesideKubelet has the kubelet and the agent probe the same apps, which fail by schedules.
// Both must decide what follows from the answers that they got, and both the same within a period.
func TestReadinessBesideKubelet(t *testing.T) {
	c := bed.Up(t, bed.Node)
	var all outcome
	for first := 0; first < *schedules; first += *batch {
		t.Run(fmt.Sprintf("from-%d", first), func(t *testing.T) {
			ns := c.Namespace(t)
			agent := c.StartAgent(t, bed.AgentConfig{Namespace: ns, Config: closed})
			defer agent.Stop(t)
			watch := startWatch(t, c, ns, corev1.ContainersReady, gate, "prober.dev/readiness.app")
			var twins []*twin
			for n := first; n < min(first+*batch, *schedules); n++ {
				w := newTwin("readiness", *seed+uint64(n), n, func(pod *corev1.Pod, probe *corev1.Probe) {
					pod.Spec.Containers[0].ReadinessProbe = probe
					pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
				})
				w.Pod = c.Create(t, ns, w.Pod)
				twins = append(twins, w)
			}
			for _, w := range twins {
				w.Pod = c.AwaitPod(t, ns, w.Name, "probed by both", func(*corev1.Pod) bool {
					return len(watch.of(w.Name, corev1.ContainersReady)) > 0 && len(watch.of(w.Name, gate)) > 0
				})
			}
			<-time.After(*lasting) // the schedules
			// From a failure on they fail for ever, so that no time in which they are well is cut short.
			left := slices.Clone(twins)
			bed.Await(t, "all apps to fail", func() bool {
				left = slices.DeleteFunc(left, func(w *twin) bool {
					app := "http://" + w.Status.PodIP + ":8080"
					return bed.Get(t, app+"/healthz?by=test") != http.StatusOK && bed.Get(t, app+"/sick") == http.StatusOK
				})
				return len(left) == 0
			})
			for _, w := range twins {
				all.add(t, w, watch)
			}
		})
	}
	all.log(t)
	if *record != "" {
		if err := os.WriteFile(*record, []byte("[\n"+strings.Join(all.recordings, ",\n")+"\n]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if all.twins == 0 || 4*all.excused > all.twins {
		t.Errorf("%d of %d pods were not probed regularly", all.excused, all.twins)
	}
}

// outcome is what was measured.
type outcome struct {
	twins, excused, changes, answers, irregular int
	kubelet, ours                               []time.Duration // from the answer that decides to its condition
	decided, shown                              []time.Duration // between both, of the same change
	recordings                                  []string        // JSON, see test/oracle/recorded_test.go
}

// add compares what both have told about a pod whose app is sick by now, and stays so.
func (o *outcome) add(t *testing.T, w *twin, watch *watch) {
	t.Helper()
	var expected, told [2][]change
	var answers [2][]answer
	bed.Await(t, w.Name+": conditions that follow from the answers", func() bool {
		for i, by := range []string{"kubelet", "prober"} {
			answers[i] = slices.Concat(answersOf(t, w.Pod, by)...)
			expected[i] = decide(answers[i], w.failures, w.successes)
			told[i] = watch.of(w.Name, [...]corev1.PodConditionType{corev1.ContainersReady, gate}[i])
			if n := len(expected[i]); n == 0 || expected[i][n-1].to || len(told[i]) < n {
				return false
			}
		}
		return true
	})
	o.twins++
	for i, lags := range []*[]time.Duration{&o.kubelet, &o.ours} {
		o.answers += len(answers[i])
		o.irregular += irregular(answers[i])
		if len(told[i]) != len(expected[i]) {
			t.Errorf("%s: %s has told %d changes, and %d follow from its answers:\n%s\n%s", w.Name, []string{"the kubelet", "prober"}[i], len(told[i]), len(expected[i]), times(told[i]), times(expected[i]))
			return
		}
		for j, e := range expected[i] {
			lag := told[i][j].at.Sub(e.at)
			if told[i][j].to != e.to || lag < 0 {
				t.Errorf("%s: change %d of %s to %t is told %v after the answer that decides", w.Name, j, []string{"the kubelet", "prober"}[i], e.to, lag)
			}
			*lags = append(*lags, lag)
		}
	}
	if single := watch.of(w.Name, "prober.dev/readiness.app"); !slices.Equal(single, told[1]) {
		t.Errorf("%s: the condition of the probe differs from that of the pod:\n%s\n%s", w.Name, times(single), times(told[1]))
	}
	for i, by := range []string{"kubelet", "prober"} {
		o.recordings = append(o.recordings, recording(w, by, answers[i], told[i]))
	}
	o.compare(t, w, answers, expected, told)
}

// recording returns the answers to one prober, and which of them precedes each change that it has told.
func recording(w *twin, by string, answers []answer, told []change) string {
	r := struct {
		Pod       string `json:"pod"`
		By        string `json:"by"`
		Failures  int    `json:"failures"`
		Successes int    `json:"successes"`
		Answers   string `json:"answers"`
		Changes   []int  `json:"changes"`
	}{Pod: w.Name, By: by, Failures: w.failures, Successes: w.successes}
	for _, a := range answers {
		r.Answers += mark(a)
	}
	for _, c := range told {
		n := 0
		for n < len(answers) && !answers[n].at.After(c.at) {
			n++
		}
		r.Changes = append(r.Changes, n-1)
	}
	line, _ := json.Marshal(r) // texts and numbers
	return string(line)
}

func mark(a answer) string { return map[bool]string{true: "+", false: "-"}[a.ok] }

// compare compares both with each other.
func (o *outcome) compare(t *testing.T, w *twin, answers [2][]answer, expected, told [2][]change) {
	t.Helper()
	odd := irregular(answers[0]) + irregular(answers[1])
	same := len(expected[0]) == len(expected[1])
	apart, near := time.Duration(0), true
	for i := range expected[0] {
		if !same {
			break
		}
		d := expected[1][i].at.Sub(expected[0][i].at)
		apart = max(apart, d.Abs())
		near = near && d.Abs() <= w.apart(expected[0][i].to)+300*time.Millisecond
		o.decided = append(o.decided, d)
		o.shown = append(o.shown, told[1][i].at.Sub(told[0][i].at))
		o.changes++
	}
	if same && near {
		return
	}
	text := fmt.Sprintf("%s, thresholds %d and %d: same changes: %t, at most %v apart; %d irregular attempts\nkubelet %s\nprober  %s",
		w.Name, w.failures, w.successes, same, apart.Round(time.Millisecond), odd, marks(answers[0]), marks(answers[1]))
	if odd == 0 {
		t.Error(text)
		return
	}
	o.excused++
	t.Log(text)
}

func (o *outcome) log(t *testing.T) {
	t.Logf("%d pods, %d changes by both, %d answers, %d of them irregular, %d pods excused for those", o.twins, o.changes, o.answers, o.irregular, o.excused)
	t.Log("kubelet, from the answer that decides to the condition: ", spread(o.kubelet))
	t.Log("prober,  from the answer that decides to the condition: ", spread(o.ours))
	t.Log("prober after the kubelet, decided: ", spread(o.decided))
	t.Log("prober after the kubelet, told:    ", spread(o.shown))
}

func times(changes []change) (text string) {
	for _, c := range changes {
		text += fmt.Sprintf(" %s %t", c.at.Format("05.000"), c.to)
	}
	return text
}

// marks draws answers, with the gaps that are irregular.
func marks(answers []answer) (text string) {
	for i, a := range answers {
		if i > 0 && irregular(answers[i-1:i+1]) > 0 {
			text += fmt.Sprintf("(%v)", a.at.Sub(answers[i-1].at).Round(10*time.Millisecond))
		}
		text += mark(a)
	}
	return text
}
