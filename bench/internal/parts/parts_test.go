package parts_test

import (
	"math"
	"os"
	"testing"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/parts"
	"github.com/daeace23/prober/bench/internal/record"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{parts.SeriesJob: parts.ServeSeries, parts.ResultsJob: parts.ServeResults})
	os.Exit(m.Run())
}

func TestBothSubjectsAreScraped(t *testing.T) {
	for _, subject := range []string{"kubelet", "prober"} {
		t.Run(subject, func(t *testing.T) {
			var runs []record.Run
			request := parts.SeriesRequest{Subject: subject, Probes: 500, Scrapes: 2}
			if err := child.Run(t.Context(), parts.SeriesJob, request, &runs); err != nil {
				t.Fatal(err)
			}
			if len(runs) != 2 {
				t.Fatalf("%+v", runs)
			}
			for _, r := range runs {
				// A probe has at least a counter, and the sum and count of a histogram.
				if got := r.Figures["scrape-mb"] * (1 << 20); got < 500*3*50 || r.Figures["update-ns"] <= 0 {
					t.Errorf("%v", r.Figures)
				}
			}
		})
	}
}

func TestTheKubeletsChannelBlocks(t *testing.T) {
	for subject, blocks := range map[string]bool{"kubelet": true, "prober": false} {
		t.Run(subject, func(t *testing.T) {
			figures := make(map[string]record.Number)
			request := parts.ResultsRequest{Subject: subject, Containers: 50, Changes: 1000, Seconds: 1}
			if err := child.Run(t.Context(), parts.ResultsJob, request, &figures); err != nil {
				t.Fatal(err)
			}
			if got := math.IsInf(float64(figures["p99-us"]), 1); got != blocks || figures["changes"] != 1000 {
				t.Errorf("%v", figures)
			}
		})
	}
}
