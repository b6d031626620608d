package agent

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/daeace23/prober/probe"
)

func TestAPIMetricsOmitsNaNAndInf(t *testing.T) {
	measured := []probe.Metric{{Name: "a", Value: math.Inf(1)}, {Name: "b", Value: 2}, {Name: "c", Value: math.NaN()}}
	text, err := json.Marshal(apiMetrics(measured))
	if err != nil || string(text) != `[{"name":"b","value":2}]` {
		t.Errorf("got %s, %v", text, err)
	}
	if none, err := json.Marshal(apiMetrics(nil)); err != nil || string(none) != "[]" {
		t.Errorf("no metrics: %s, %v", none, err)
	}
}
