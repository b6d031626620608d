package plugintest

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/probe"
)

func TestAgreeVariantsDiffer(t *testing.T) {
	said := func(r probe.Result) *answer { return &answer{out: probe.Outcome{Result: r}} }
	results := []Result{
		{Name: "a", Variant: "reset", got: said(probe.Success)},
		{Name: "a", Variant: "fresh", got: said(probe.Failure)},
		{Name: "b", Variant: "reset", got: said(probe.Failure)},
		{Name: "b", Variant: "fresh", got: said(probe.Failure)},
	}
	agree(results)
	if results[0].Failures != nil || results[2].Failures != nil || results[3].Failures != nil {
		t.Errorf("got %+v, want one failure", results)
	}
	if got := results[1]; len(got.Failures) != 1 || !strings.Contains(got.Diff, "-result: success\n+result: failure") {
		t.Errorf("got %q, %q", got.Failures, got.Diff)
	}
}
