package agent

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/daeace23/prober/probe"
)

func TestFiniteDropsNaNAndInf(t *testing.T) {
	measured := []probe.Metric{{Name: "a", Value: math.Inf(1)}, {Name: "b", Value: 2}, {Name: "c", Value: math.NaN()}}
	text, err := json.Marshal(finite(measured))
	if err != nil || string(text) != `[{"name":"b","value":2}]` {
		t.Errorf("got %s, %v", text, err)
	}
	if measured[0].Name != "a" {
		t.Error("what the handler measured was changed")
	}
}
