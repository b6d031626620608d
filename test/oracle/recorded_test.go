package oracle

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// recording has the answers of an app to one prober on a real node, and what it has told.
// test/kube/beside writes it: see -record there.
type recording struct {
	Pod       string `json:"pod"`
	By        string `json:"by"` // kubelet or prober
	Failures  int32  `json:"failures"`
	Successes int32  `json:"successes"`
	Answers   string `json:"answers"` // + or - for each
	// Changes has, for each change of the condition of the pod, which is false first, the index of
	// the last answer before it was seen. The kubelet asks again as soon as a pod is not ready, so that
	// this may be one answer after that which has decided.
	Changes []int `json:"changes"`
}

// scenario returns one whose attempts have the recorded results, in their order.
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

// changes returns which of the attempts, the first of which have answers, have changed the result to or from
// success.
func (r *Record) changes(answers int) (at []int, attempts int) {
	ready := false
	for _, o := range r.observations {
		var n int
		if _, err := fmt.Sscanf(o.What, "attempt %d of", &n); err == nil {
			attempts = n
			continue
		}
		if !strings.HasPrefix(o.What, "update readiness") {
			continue
		}
		next := strings.Contains(o.What, "Success")
		if next != ready && attempts <= answers { // then the script begins again
			ready, at = next, append(at, attempts-1)
		}
	}
	return at, attempts
}

// follows reports whether each change of the condition was seen after the attempt that decides it, and
// before that which decides the next one.
func (r *recording) follows(decided []int) bool {
	if len(decided) != len(r.Changes) {
		return false
	}
	for i, seen := range r.Changes {
		if seen < decided[i] || i+1 < len(decided) && seen >= decided[i+1] {
			return false
		}
	}
	return true
}

// TestRecordedAnswers has the kubelet's code and ours decide about answers that apps have given to the
// kubelet and to the agent of a real node. Both must decide as those two have.
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
				t.Errorf("%s by %s with thresholds %d and %d: %s decides at %v in %d attempts, and on the node it was %v:\n%s", r.Pod, r.By, r.Failures, r.Successes, side, got, attempts, r.Changes, r.Answers)
			}
			changes += len(got)
		}
	}
	t.Logf("%d recordings, %d changes by two sides", len(all), changes)
}
