package wasm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

func TestGoGuestVerdicts(t *testing.T) {
	for config, want := range map[string]probe.Outcome{
		`{}`:               {Result: probe.Success, Output: "ok"},
		`{"do":"warning"}`: {Result: probe.Warning, Output: "so so"},
		`{"do":"failure"}`: {Result: probe.Failure, Output: "no"},
		`{"do":"unknown"}`: {Result: probe.Unknown, Output: "who knows"},
	} {
		t.Run(config, func(t *testing.T) {
			got, err := attempt(t, bind(t, goGuest, config, probe.Target{}), probe.Request{}, 5*time.Second)
			if err != nil || got.Result != want.Result || got.Output != want.Output {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestGoGuestError(t *testing.T) {
	_, err := attempt(t, bind(t, goGuest, `{"do":"error"}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if probe.ReasonOf(err) != probe.ReasonGuest || !strings.Contains(err.Error(), "cannot tell") {
		t.Errorf("got %v, want the guest's error", err)
	}
}
