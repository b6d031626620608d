package clientcmd_test

import (
	"strings"
	"testing"
)

func TestGetSLOs(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/slos": `{"items":[
		{"name":"shop","objective":99.9,"window":"30d","kinds":["readiness"],"maintenance":"exclude","probes":3,"failing":1,"since":"2026-11-01T00:00:00Z",
			"goodSeconds":2592000,"badSeconds":983.4,"availability":0.99962,"budget":{"totalSeconds":2592.98,"spentSeconds":983.4,"leftSeconds":1609.58,"left":0.62074},
			"burnRates":[{"window":"5m","rate":333.3333},{"window":"30m","rate":0},{"window":"1h","rate":27},{"window":"6h","rate":4.52},{"window":"3d"}]},
		{"name":"spent","objective":99,"window":"7d","kinds":["readiness"],"maintenance":"exclude","probes":1,"failing":0,"goodSeconds":98,"badSeconds":2,"availability":0.98,
			"budget":{"totalSeconds":1,"spentSeconds":2,"leftSeconds":-1,"left":-1},"burnRates":[]},
		{"name":"new","objective":95,"window":"7d","kinds":["readiness"],"maintenance":"count","probes":0,"failing":0,"goodSeconds":0,"badSeconds":0,
			"budget":{"totalSeconds":0,"spentSeconds":0,"leftSeconds":0},"burnRates":[]}]}`})
	fields := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return lines
	}
	for args, want := range map[string][]string{
		"get slos": {
			"NAME OBJECTIVE WINDOW AVAILABILITY BUDGET LEFT BURN 1H BURN 6H FAILING",
			"shop 99.9% 30d 99.962% 62% 27x 4.5x 1/3", "spent 99% 7d 98.000% -100% - - 0/1", "new 95% 7d - - - - 0/0",
		},
		"get slos spent -o wide --no-headers": {"spent 99% 7d 98.000% -100% - - 0/1 - - - 1s 2s -1s -"},
		"get slo shop -o name":                {"slo/shop"},
	} {
		code, stdout, stderr := prober(a.URL, strings.Fields(args)...)
		if got := fields(stdout); code != 0 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: exit code %d, %s\ngot  %q\nwant %q", args, code, stderr, got, want)
		}
	}
	if code, _, stderr := prober(a.URL, "get", "slos", "cart"); code != 1 || !strings.Contains(stderr, "cart") {
		t.Errorf("unknown name: exit code %d, %s", code, stderr)
	}
}
