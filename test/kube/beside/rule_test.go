//go:build linux

package beside

import (
	"slices"
	"testing"
	"time"
)

// answer is an app's answer to an attempt.
type answer struct {
	at time.Time
	ok bool
}

// change is a change of a decided result, or of the condition that shows it.
type change struct {
	at time.Time
	to bool
}

// decide returns the changes that answers lead to by the documented threshold rule: a container is not ready
// at first, and its result changes after failures or successes equal answers in a row that differ from it.
func decide(answers []answer, failures, successes int) (changes []change) {
	for i, a := range answers {
		need := failures
		if a.ok {
			need = successes
		}
		ready := len(changes) > 0 && changes[len(changes)-1].to
		if a.ok == ready || i+1 < need {
			continue
		}
		if !slices.ContainsFunc(answers[i+1-need:i], func(b answer) bool { return b.ok != a.ok }) {
			changes = append(changes, change{a.at, a.ok})
		}
	}
	return changes
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		answers             string
		failures, successes int
		want                string // the state after each answer
	}{
		{"+-+-", 1, 1, "+-+-"},
		{"--+", 1, 1, "--+"},
		{"+--+-+", 2, 1, "++-+++"},
		{"+--+++---", 3, 3, "-----+++-"},
		{"+-++-++", 1, 2, "---+--+"},
	} {
		start := time.Now()
		var answers []answer
		for i, mark := range test.answers {
			answers = append(answers, answer{start.Add(time.Duration(i) * time.Second), mark == '+'})
		}
		got, changes := "", decide(answers, test.failures, test.successes)
		for _, a := range answers {
			mark := "-"
			for _, c := range changes {
				if !c.at.After(a.at) {
					mark = map[bool]string{true: "+", false: "-"}[c.to]
				}
			}
			got += mark
		}
		if got != test.want {
			t.Errorf("%s with thresholds %d and %d: %s, want %s", test.answers, test.failures, test.successes, got, test.want)
		}
	}
}
