package process_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/probe"
)

func TestStrictRefusesUnknownField(t *testing.T) {
	for _, strict := range []bool{false, true} {
		h := load(t, process.Config{Env: []string{"START=hostile"}, Strict: strict})
		out, err := bind(t, h, "colour").Probe(t.Context(), probe.Request{Spec: probe.Spec{Timeout: patience}})
		if !strict && (err != nil || out.Output != "it is red") {
			t.Errorf("got %+v, %v, want that the field is ignored", out, err)
		}
		if strict && (probe.ReasonOf(err) != probe.ReasonProtocol || !strings.Contains(err.Error(), "colour: the field is unknown")) {
			t.Errorf("got %+v, %v, want an error of the protocol", out, err)
		}
	}
}
