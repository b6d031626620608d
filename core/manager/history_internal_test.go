package manager

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// The budget counts the bytes that are shown, so nothing else may be kept alive.
func TestHistoryKeepsNoLongOutputAlive(t *testing.T) {
	h := &history{budget: 1 << 20}
	h.probes.Add(1)
	r := h.newRecord()
	output := strings.Repeat("x", probe.MaxOutput)
	for range 3 {
		r.Tick(&worker.Tick{Outcome: probe.Outcome{Result: probe.Failure, Output: output}})
	}
	for _, past := range r.past {
		if len(past.Output) != historyOutput || unsafe.StringData(past.Output) == unsafe.StringData(output) {
			t.Errorf("%d bytes of output are kept, as part of the whole", len(past.Output))
		}
	}
	if len(r.past) != 2 {
		t.Errorf("%d ticks kept, want 2", len(r.past))
	}
}
