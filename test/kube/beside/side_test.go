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
	schedules = flag.Int("schedules", 9, "number of schedules of failures, each for one pod")
	batch     = flag.Int("batch", 25, "number of pods at the same time")
	seed      = flag.Uint64("seed", 1, "seed of the first schedule")
	record    = flag.String("record", "", "file for the answers and changes, for test/oracle/testdata/recorded.json")
	lasting   = flag.Duration("lasting", 20*time.Second, "how long the apps fail by their schedules")
)

const gate = "prober.dev/ready"

// closed is a prober.yaml whose breaker stays closed, although most probes fail.
const closed = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  breaker: {share: 1, least: 100000, lag: 1h, pressure: {cpu: 100, memory: 100, io: 100}}
`

const period = time.Second // the kubelet's shortest period

// twin is a pod that both the kubelet and the agent probe, with equal probes.
type twin struct {
	*corev1.Pod
	failures, successes int // thresholds
}

// steps returns a duration for the steps of a schedule. With it, the phase of a probe does not affect
// whether it reaches its thresholds. In a time d, a probe gets at most d/period+1 answers, and at least
// d/period rounded down. So no run of steps may last from threshold-1 to threshold periods.
func steps(failures, successes int) time.Duration {
	switch two, three := failures == 2 || successes == 2, failures == 3 || successes == 3; {
	case two && three:
		return 3300 * time.Millisecond
	case two:
		return 2400 * time.Millisecond
	case three: // one step is too short to reach it, two are enough
		return 1650 * time.Millisecond
	default:
		return 1300 * time.Millisecond
	}
}

// maxApart returns how much later than the other one of both may decide: a period, or more before a success.
// The kubelet makes an extra attempt when the status of an unready pod changes, and the answer counts
// towards the success threshold.
func (w *twin) maxApart(ready bool) time.Duration {
	if ready {
		return period * time.Duration(w.successes)
	}
	return period
}

// newTwin returns a pod that both probe, with the thresholds of number n. change adds the kubelet's probe.
func newTwin(kind string, seed uint64, n int, change func(pod *corev1.Pod, probe *corev1.Probe)) *twin {
	w := &twin{failures: 1 + n%3, successes: 1 + n/3%3}
	step := steps(w.failures, w.successes)
	w.Pod = bed.Pod(fmt.Sprintf("seed-%d", seed), map[string]string{"SEED": fmt.Sprint(seed), "STEP": step.String(), "LOG": "1"})
	probe := &corev1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 10, // no attempt may time out
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

// TestReadinessBesideKubelet runs apps that fail by schedules, and that the kubelet and the agent probe. The
// decisions of both must follow from the answers that they got, and must be the same within a period.
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
					return len(watch.changesOf(w.Name, corev1.ContainersReady)) > 0 && len(watch.changesOf(w.Name, gate)) > 0
				})
			}
			<-time.After(*lasting) // the apps fail by their schedules
			// Each app that fails is made sick for good, so that no run of successes is cut short.
			left := slices.Clone(twins)
			bed.Await(t, "all apps to fail", func() bool {
				left = slices.DeleteFunc(left, func(w *twin) bool {
					app := "http://" + w.Status.PodIP + ":8080"
					return bed.HTTPStatus(t, app+"/healthz?by=test") != http.StatusOK && bed.HTTPStatus(t, app+"/sick") == http.StatusOK
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

// outcome has the measurements of all pods.
type outcome struct {
	twins, excused, changes, answers, irregular int
	kubelet, ours                               []time.Duration // from the deciding answer to the condition
	decided, shown                              []time.Duration // from the kubelet's change to the agent's
	recordings                                  []string        // JSON, see test/oracle/recorded_test.go
}

// add compares the changes that both have shown with the changes expected from the answers. The app of the
// pod must be sick for good.
func (o *outcome) add(t *testing.T, w *twin, watch *watch) {
	t.Helper()
	var expected, shown [2][]change
	var answers [2][]answer
	bed.Await(t, w.Name+": the conditions expected from the answers", func() bool {
		for i, by := range []string{"kubelet", "prober"} {
			answers[i] = slices.Concat(answersOf(t, w.Pod, by)...)
			expected[i] = decide(answers[i], w.failures, w.successes)
			shown[i] = watch.changesOf(w.Name, [...]corev1.PodConditionType{corev1.ContainersReady, gate}[i])
			if n := len(expected[i]); n == 0 || expected[i][n-1].to || len(shown[i]) < n {
				return false
			}
		}
		return true
	})
	o.twins++
	for i, lags := range []*[]time.Duration{&o.kubelet, &o.ours} {
		o.answers += len(answers[i])
		o.irregular += irregular(answers[i])
		if len(shown[i]) != len(expected[i]) {
			t.Errorf("%s: %s has shown %d changes, want %d:\n%s\n%s", w.Name, []string{"the kubelet", "prober"}[i], len(shown[i]), len(expected[i]), times(shown[i]), times(expected[i]))
			return
		}
		for j, e := range expected[i] {
			lag := shown[i][j].at.Sub(e.at)
			if shown[i][j].to != e.to || lag < 0 {
				t.Errorf("%s: change %d of %s to %t is shown %v after the deciding answer", w.Name, j, []string{"the kubelet", "prober"}[i], e.to, lag)
			}
			*lags = append(*lags, lag)
		}
	}
	if single := watch.changesOf(w.Name, "prober.dev/readiness.app"); !slices.Equal(single, shown[1]) {
		t.Errorf("%s: the condition of the probe differs from the pod's:\n%s\n%s", w.Name, times(single), times(shown[1]))
	}
	for i, by := range []string{"kubelet", "prober"} {
		o.recordings = append(o.recordings, recording(w, by, answers[i], shown[i]))
	}
	o.compare(t, w, answers, expected, shown)
}

// recording returns the answers to the kubelet or the agent as JSON, with the index of the last answer before
// each change that it has shown.
func recording(w *twin, by string, answers []answer, shown []change) string {
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
	for _, c := range shown {
		n := 0
		for n < len(answers) && !answers[n].at.After(c.at) {
			n++
		}
		r.Changes = append(r.Changes, n-1)
	}
	line, _ := json.Marshal(r) // cannot fail
	return string(line)
}

func mark(a answer) string { return map[bool]string{true: "+", false: "-"}[a.ok] }

// compare compares the changes of both. A difference is excused if attempts were irregular.
func (o *outcome) compare(t *testing.T, w *twin, answers [2][]answer, expected, shown [2][]change) {
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
		near = near && d.Abs() <= w.maxApart(expected[0][i].to)+300*time.Millisecond
		o.decided = append(o.decided, d)
		o.shown = append(o.shown, shown[1][i].at.Sub(shown[0][i].at))
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
	t.Log("kubelet, from the deciding answer to the condition: ", spread(o.kubelet))
	t.Log("prober,  from the deciding answer to the condition: ", spread(o.ours))
	t.Log("prober after the kubelet, decided: ", spread(o.decided))
	t.Log("prober after the kubelet, shown:   ", spread(o.shown))
}

func times(changes []change) (text string) {
	for _, c := range changes {
		text += fmt.Sprintf(" %s %t", c.at.Format("05.000"), c.to)
	}
	return text
}

// marks formats answers, with the irregular gaps between them.
func marks(answers []answer) (text string) {
	for i, a := range answers {
		if i > 0 && irregular(answers[i-1:i+1]) > 0 {
			text += fmt.Sprintf("(%v)", a.at.Sub(answers[i-1].at).Round(10*time.Millisecond))
		}
		text += mark(a)
	}
	return text
}
