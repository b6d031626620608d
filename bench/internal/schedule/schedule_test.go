package schedule_test

import (
	"os"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/schedule"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{schedule.JobName: schedule.Serve})
	os.Exit(m.Run())
}

func TestBothDesignsTick(t *testing.T) {
	for _, design := range []string{schedule.Ticker, schedule.Heap} {
		t.Run(design, func(t *testing.T) {
			t.Parallel()
			figures := make(map[string]record.Number)
			request := schedule.Request{Design: design, Probes: 100, Period: 100 * time.Millisecond, Length: 500 * time.Millisecond}
			if err := child.Run(t.Context(), schedule.JobName, request, &figures); err != nil {
				t.Fatal(err)
			}
			// Rounding at the edges of the measurement may add or omit a tick of a probe.
			if ticks := figures["ticks"]; ticks < 400 || ticks > 600 || figures["cpu-percent"] <= 0 {
				t.Errorf("%v", figures)
			}
		})
	}
}
