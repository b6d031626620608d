package agent_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// series returns the lines of a scrape that contain all words.
func (r *running) series(words ...string) (all []string) {
	r.t.Helper()
	_, body := r.do("GET", "/metrics")
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") && containsAll(line, words) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func TestMetricsOfOneProbe(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	r := start(t, target.external("shop"))
	events := r.stream()
	const labels = `container="web",kind="readiness",namespace="default",pod="shop"`
	want := func(when string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if got := r.series(line[:strings.Index(line, "{")+1]); !slices.Contains(got, line) {
				t.Errorf("%s: %q is not among %q", when, line, got)
			}
		}
	}
	awaitReady := func(value string) { // follows the status of the pod, which follows the probe
		t.Helper()
		deadline := time.After(patience)
		for len(r.series(`prober_ready{namespace="default",pod="shop"} `+value)) == 0 {
			select {
			case <-target.hits:
			case <-deadline:
				t.Fatalf("prober_ready is never %s", value)
			}
		}
	}
	awaitProbe(t, events, "ready", ready)
	awaitReady("1")
	want("ready", `prober_probe_state{`+labels+`,state="success"} 1`, `prober_probe_state{`+labels+`,state="failure"} 0`)
	if got := r.series("prober_probe_gate{"); len(got) > 0 {
		t.Errorf("probes that make attempts have gates: %q", got)
	}
	target.status.Store(http.StatusServiceUnavailable)
	awaitProbe(t, events, "not ready", unready)
	awaitReady("0")
	want("not ready", `prober_probe_state{`+labels+`,state="success"} 0`, `prober_probe_state{`+labels+`,state="failure"} 1`)
	if got := r.series("prober_probe_failures_total{"+labels, `reason="http_status"`); len(got) != 1 {
		t.Errorf("failures: %q", got)
	}
	if status, body := r.do("POST", pausePath); status != http.StatusOK {
		t.Fatalf("pause: %d %s", status, body)
	}
	awaitProbe(t, events, "paused", func(p *streamedProbe) bool { return p.Paused && p.Gate == "paused" })
	want("paused", `prober_paused{`+labels+`} 1`)
	if status, body := r.do("POST", strings.Replace(pausePath, "/pause", "/resume", 1)); status != http.StatusOK {
		t.Fatalf("resume: %d %s", status, body)
	}
	awaitProbe(t, events, "resumed", func(p *streamedProbe) bool { return !p.Paused })
	if got := r.series("prober_paused{"); len(got) > 0 {
		t.Errorf("after the pause: %q", got)
	}
}
