package load_test

import (
	"os"
	"testing"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/load"
	"github.com/daeace23/prober/bench/internal/record"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{load.JobName: load.Serve})
	os.Exit(m.Run())
}

// TestBothManagersProbe runs a few probes with each manager, and compares their rate with the expected one.
func TestBothManagersProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		request load.Request
		rate    record.Number
	}{
		{"kubelet", load.Request{Subject: load.Kubelet, Probes: 60}, 40},
		{"prober", load.Request{Subject: load.Prober, Probes: 60}, 40},
		{"bare handler", load.Request{Subject: load.Prober, Probes: 60, Bare: true}, 40},
		{"group", load.Request{Subject: load.Group, Probes: 60}, 40},
		{"group without metrics", load.Request{Subject: load.Unobserved, Probes: 60}, 40},
		{"late", load.Request{Subject: load.Kubelet, Probes: 60, Late: true}, 40},
		{"hanging", load.Request{Subject: load.Prober, Probes: 40, OneProbe: true, Hanging: 20}, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := child.Start(t.Context(), load.JobName)
			if err != nil {
				t.Fatal(err)
			}
			c.request.Period, c.request.MaxSeconds = 1, 2
			var ready load.Ready
			if err := p.Ask(c.request, &ready); err != nil {
				t.Fatal(err)
			}
			figures := make(map[string]record.Number)
			if err := p.Ask(load.Measure{Seconds: 2}, &figures); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if figures["expected-rate"] != c.rate {
				t.Errorf("expected %v attempts a second, want %v", figures["expected-rate"], c.rate)
			}
			// A hanging attempt takes a period, so the next tick may be lost.
			if figures["ticks"] == 0 || figures["rate"] < c.rate/4 || figures["rate"] > c.rate*1.5 {
				t.Errorf("%v", figures)
			}
			if _, has := figures["own-p99-ms"]; has != (c.request.Hanging == 0 && (c.request.Subject == load.Prober || c.request.Subject == load.Group)) {
				t.Errorf("lags by its own schedule: %v", figures)
			}
			if ready.Figures["probes"] != record.Number(c.request.Probes) {
				t.Errorf("%v", ready.Figures)
			}
		})
	}
}
