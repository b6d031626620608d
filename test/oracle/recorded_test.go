package oracle

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// recording has the answers of an app to one prober on a real node, and the changes of the condition that
// followed. test/kube/beside writes recordings with its flag -record.
type recording struct {
	Pod       string `json:"pod"`
	By        string `json:"by"` // kubelet or prober
	Failures  int32  `json:"failures"`
	Successes int32  `json:"successes"`
	Answers   string `json:"answers"` // + or - for each
	// Changes has the index of the last answer before each change of the pod's condition was observed. The
	// condition is false at first. The index may be one higher than the deciding answer's, because the
	// kubelet makes another attempt as soon as a pod is not ready.
	Changes []int `json:"changes"`
}

// scenario returns a scenario whose attempts have the recorded results, in the same order.
func (r *recording) scenario() *Scenario {
	p := &Probe{Period: 1, Timeout: 1, Success: r.Successes, Failure: r.Failures}
	for _, mark := range r.Answers {
		p.Script = append(p.Script, Step{Do: map[rune]string{'+': StepOK, '-': StepFail}[mark]})
	}
	return &Scenario{
		Pods: []Pod{{Containers: []Container{{Name: "app", Readiness: p}}}},
		Ops: []Op{
			{At: Duration(time.Second), Do: OpStart, Container: "app", Started: "true"},
			{At: Duration(2 * time.Second), Do: OpAdd},
		},
		End: Duration(2*time.Second + time.Duration(len(r.Answers))*time.Second),
	}
}

// changes returns the indices of the attempts that have changed the result to or from success, and the
// number of attempts. It ignores changes after the attempts with answers.
func (r *Record) changes(answers int) (at []int, attempts int) {
	ready := false
	for _, o := range r.observations {
		var n int
		if _, err := fmt.Sscanf(o.Text, "attempt %d of", &n); err == nil {
			attempts = n
			continue
		}
		if !strings.HasPrefix(o.Text, "update readiness") {
			continue
		}
		next := strings.Contains(o.Text, "Success")
		if next != ready && attempts <= answers { // afterwards the script begins again
			ready, at = next, append(at, attempts-1)
		}
	}
	return at, attempts
}

// follows reports whether each change of the condition was observed after the attempt that decided it, and
// before the attempt that decided the next change.
func (r *recording) follows(decided []int) bool {
	if len(decided) != len(r.Changes) {
		return false
	}
	for i, observed := range r.Changes {
		if observed < decided[i] || i+1 < len(decided) && observed >= decided[i+1] {
			return false
		}
	}
	return true
}

// TestRecordedAnswers runs both sides with answers that apps gave to the kubelet and to the agent of a real
// node. Both sides must decide as they did on the node.
func TestRecordedAnswers(t *testing.T) {
	data, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []recording
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Errorf("only %d recordings", len(all))
	}
	o := newOracle(t)
	changes := 0
	for _, r := range all {
		for side, make := range map[string]Maker{"kubelet": Kubelet, "ours": Ours(0)} {
			got, attempts := o.Run(t, r.scenario(), make).changes(len(r.Answers))
			if !r.follows(got) || attempts < len(r.Answers) {
				t.Errorf("%s by %s with thresholds %d and %d: %s decides at %v in %d attempts; on the node the changes were at %v:\n%s", r.Pod, r.By, r.Failures, r.Successes, side, got, attempts, r.Changes, r.Answers)
			}
			changes += len(got)
		}
	}
	t.Logf("%d recordings, %d changes by two sides", len(all), changes)
}
