package main

import (
	"os"
	"testing"

	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/google/go-cmp/cmp"
)

func TestMetricsPageIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(agentmetrics.Families()), string(text)); diff != "" {
		t.Errorf("docs/metrics.md is not current: run `make docs` (-want +got)\n%s", diff)
	}
}
