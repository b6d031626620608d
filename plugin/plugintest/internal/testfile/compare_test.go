package testfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/probe"
)

func TestAnswerDifferenceShowsWhatDiffers(t *testing.T) {
	success := &testfile.Answer{Outcome: probe.Outcome{Result: probe.Success, Output: "fine"}, Memory: 1}
	failure := &testfile.Answer{Outcome: probe.Outcome{Result: probe.Failure, Output: "fine"}}
	if got := success.Difference(failure); !strings.Contains(got, "-result: success\n+result: failure") {
		t.Errorf("got %q", got)
	}
	same := *success
	same.Memory = 2
	if got := success.Difference(&same); got != "" {
		t.Errorf("got %q of answers that only differ in memory", got)
	}
}

func TestInRealTimeWidensTimes(t *testing.T) {
	c := testfile.Case{Want: testfile.Want{
		Result:      "success",
		VirtualTime: &testfile.Bounds{Min: 0.02, Max: 0.05},
		Metrics:     map[string]testfile.Bounds{"took": {Max: 5}, "parts": {Max: 5}},
		Memory:      &testfile.Bounds{Max: 1},
	}}
	c.Want.Message.Source = "took 1s"
	for _, tt := range []struct {
		name    string
		virtual time.Duration
		message string
		took    float64
		passes  bool
	}{
		{"in time", 20 * time.Millisecond, "took 1s", 5, true},
		{"later by less than the slack", 900 * time.Millisecond, "took 1.9s", 900, true},
		{"later by more than the slack", 1200 * time.Millisecond, "took 1s", 5, false},
		{"a message that is later by more than the slack", 0, "took 2.1s", 5, false},
		{"a metric that is later by more than the slack", 0, "took 1s", 1006, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &testfile.Answer{Virtual: tt.virtual, Memory: 2, Outcome: probe.Outcome{
				Result: probe.Success, Output: tt.message,
				Metrics: []probe.Metric{{Name: "took", Value: tt.took, Unit: "ms"}, {Name: "parts", Value: 5}},
			}}
			wider, note := c.InRealTime(got, time.Second)
			if diff := wider.Want.Compare(got); (diff == "") != tt.passes || note == "" {
				t.Errorf("got %q, noted %q", diff, note)
			}
		})
	}
}
