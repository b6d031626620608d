package clientcmd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// measuredAgent returns the responses of an agent with three probes: two like ones, whose outages are brief and whose
// attempts are slow, and one that is new.
func measuredAgent(t *testing.T) map[string]string {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	all := make(map[string]string)
	set := func(path string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all["GET "+path] = string(text)
	}
	var probes api.ProbeList
	changes := api.StateChanges{Since: begin, Until: begin.Add(7 * 24 * time.Hour)}
	for i, pod := range []string{"shop-1", "shop-2", "cart"} {
		probes.Items = append(probes.Items, api.ProbeStatus{
			Namespace: "default", Pod: pod, Container: "web", Kind: "readiness", Handler: "http",
			Spec: api.SpecStatus{Period: "10s", Timeout: "1s", SuccessThreshold: 1, FailureThreshold: 1},
		})
		var h api.ProbeHistory
		for k := range []int{300, 300, 1}[i] {
			h.Points = append(h.Points, api.HistoryPoint{Time: begin.Add(time.Duration(k) * 10 * time.Minute), Success: 60, MeanSeconds: 0.1, MaxSeconds: 0.92})
		}
		set(fmt.Sprintf("/api/v1/probes/default/%s/web/readiness/history", pod), h)
		state := "absent"
		change := func(at time.Duration, to string) {
			changes.Items = append(changes.Items, api.StateChange{
				Namespace: "default", Pod: pod, Container: "web", Kind: "readiness", Handler: "http",
				Transition: api.Transition{Time: begin.Add(at), From: state, To: to},
			})
			state = to
		}
		change(0, "success")
		for k := range 4 {
			change(time.Duration(k+1)*time.Hour, "failure")
			change(time.Duration(k+1)*time.Hour+10*time.Second, "success")
		}
	}
	set("/api/v1/probes", probes)
	set("/api/v1/changes", changes)
	all["GET /api/v1/pods"] = `{"items":[{"metadata":{"namespace":"default","name":"shop-1","labels":{"app":"shop"}}},
		{"metadata":{"namespace":"default","name":"shop-2","labels":{"app":"shop"}}},{"metadata":{"namespace":"default","name":"cart"}}]}`
	all["GET /api/v1/targets"] = `{"items":[]}`
	return all
}

func TestAdvise(t *testing.T) {
	all := measuredAgent(t)
	a := newFakeAgent(t, all)
	code, stdout, stderr := prober(a.URL, "advise")
	var lines []string
	for line := range strings.Lines(stdout) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"2 with suggestions, 1 with too little data", "", "PROBES FIELD NOW ADVISED REASON",
		"default/shop/web readiness (2) timeout 1s 3s 99.9% of 36000 attempts took at most 920ms in 2d1h50m",
		"failureThreshold 1 3 8 of 8 outages lasted one attempt", "detection 11s 33s 8 failures, 0 as advised",
	}
	if code != 0 || len(lines) != 1+len(want) || !strings.HasPrefix(lines[0], "3 probes from ") || !strings.HasSuffix(lines[0], ": 36060 attempts measured, 12 outages") || strings.Join(lines[1:], "\n") != strings.Join(want, "\n") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = prober(a.URL, "advise", "-l", "app=shop", "-o", "json")
	var got struct {
		Since time.Time
		Items []struct {
			Workload                string
			Probes, Sampled         int
			Data                    struct{ Attempts, Outages int }
			Suggestions             []struct{ Field, Now, Advised, Reason string }
			AdvisedDetectionSeconds float64
			Failures                *int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || len(got.Items) != 1 {
		t.Fatalf("%v, exit code %d, %s\n%s", err, code, stderr, stdout)
	}
	if i := got.Items[0]; i.Workload != "shop" || i.Probes != 2 || i.Sampled != 2 || i.Data.Attempts != 36000 || i.Data.Outages != 8 || len(i.Suggestions) != 2 || i.AdvisedDetectionSeconds != 33 || i.Failures == nil || *i.Failures != 8 {
		t.Errorf("%+v", i)
	}
	code, stdout, _ = prober(a.URL, "advise", "cart")
	if code != 0 || !strings.HasSuffix(stdout, "\n0 with suggestions, 1 with too little data\n") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	empty := newFakeAgent(t, map[string]string{"GET /api/v1/probes": `{"items":[]}`, "GET /api/v1/pods": `{"items":[]}`, "GET /api/v1/targets": `{"items":[]}`})
	if code, _, stderr = prober(empty.URL, "advise", "nothing"); code != 1 || !strings.Contains(stderr, "no probe of nothing") {
		t.Errorf("unknown name: exit code %d, %s", code, stderr)
	}
	if code, _, stderr = prober(a.URL, "advise", "--since", "soon"); code != 64 || !strings.Contains(stderr, "--since") {
		t.Errorf("wrong time: exit code %d, %s", code, stderr)
	}
	all["GET /api/v1/changes"] = `409!{"message":"the agent keeps no history: --state-dir is not set"}`
	if code, _, stderr = prober(newFakeAgent(t, all).URL, "advise"); code != 1 || !strings.Contains(stderr, "keeps no history") {
		t.Errorf("no history: exit code %d, %s", code, stderr)
	}
}
