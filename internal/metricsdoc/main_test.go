package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/metrics"
)

func TestMetricsPageIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(metrics.Families()), string(text)); diff != "" {
		t.Errorf("docs/metrics.md is not current: run `make docs` (-want +got)\n%s", diff)
	}
}
