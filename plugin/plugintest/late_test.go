package plugintest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
)

// How far a guest gets that is stopped at its deadline is a matter of chance. What became of
// its case is not.
func TestAGuestThatGoesOnWhenItIsLate(t *testing.T) {
	const ask = "timeout: 300ms, grants: [target, dns], request: {target: {host: web.internal, port: 80}, config: {do: late}}"
	for net, want := range map[string]string{
		"{dial: \"tcp://web.internal:80\", behaviour: timeout}":          "[]",
		"{dial: \"tcp://web.internal:80\", script: [{recv: {text: x}}]}": `[line 5: tcp://web.internal:80 still waits for "x"; got ""]`,
	} {
		f := load(t, "\n- {name: x, "+ask+", host: {net: ["+net+"]}, want: {result: failure, message: timed out after 300ms, denied: []}}\n")
		f.Cases = slices.Repeat(f.Cases, 32)
		got := make(map[string]int)
		for _, r := range run(t, f, plugintest.Config{CasesOnly: true}).Results {
			got[fmt.Sprint(r.Failures)+r.Diff]++
		}
		if got[want] != len(f.Cases) {
			t.Errorf("%s: got %v, want %s each time", net, got, want)
		}
	}
}
