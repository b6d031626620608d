package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// pausedProbe is a streamed probe with its pause.
type pausedProbe struct {
	streamedProbe
	PausedUntil           time.Time
	PauseReason, PausedBy string
}

func TestPauseEndsAtItsTime(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	events := r.stream()
	awaitProbe(t, events, "ready", ready)
	who := fmt.Sprintf("uid %d, with the socket", os.Geteuid())
	before := time.Now()
	status, body := r.do("POST", pausePath+"?for=1h&reason=first")
	if status != http.StatusOK || !strings.Contains(body, `"pauseReason":"first","pausedBy":"`+who+`"`) {
		t.Fatalf("pause: %d %s", status, body)
	}
	if status, body = r.do("POST", pausePath+"?for=1s&reason=a+move"); status != http.StatusOK {
		t.Fatalf("pause: %d %s", status, body)
	}
	p := awaitEvent(t, events, "probe", "paused", func(p *pausedProbe) bool { return p.Paused && p.PauseReason == "a move" })
	if p.PausedBy != who || p.Gate != "paused" || p.PausedUntil.Before(before.Add(time.Second)) || p.PausedUntil.After(time.Now().Add(time.Second)) {
		t.Errorf("while it is paused: %+v", p)
	}
	p = awaitEvent(t, events, "probe", "resumed", func(p *pausedProbe) bool { return !p.Paused })
	if p.PausedBy != "" || !p.PausedUntil.IsZero() {
		t.Errorf("after the pause: %+v", p)
	}
	r.lines.await(t, 0, "msg=action action=pause", `detail="for 1s, reason: a move"`)
	r.lines.await(t, 0, `msg="pause ended" object=default/shop/web/readiness`, who, `detail="for 1s, reason: a move"`)
	var list v1.EventList
	r.get("/api/v1/events?reason=ProbeResumed", &list)
	want := "the pause of default/shop/web/readiness by " + who + " has ended, for 1s, reason: a move"
	if len(list.Items) != 1 || list.Items[0].Message != want || list.Items[0].InvolvedObject.FieldPath != "spec.containers{web}" {
		t.Errorf("events: %+v", list.Items)
	}
}

func TestTimedPauseOfProbePausedByManifestIsRefused(t *testing.T) {
	t.Parallel()
	text := strings.Replace(newTarget(t).external("shop"), "readiness: {", "readiness: {paused: true, ", 1)
	r := start(t, text)
	awaitProbe(t, r.stream(), "paused", func(p *streamedProbe) bool { return p.Paused })
	status, body := r.do("POST", pausePath+"?for=1s")
	if status != http.StatusConflict || !strings.Contains(body, "paused by its configuration") {
		t.Errorf("for a time: %d %s", status, body)
	}
	if status, body = r.do("POST", pausePath+"?reason=x"); status != http.StatusOK || !strings.Contains(body, `"pauseReason":"x"`) {
		t.Errorf("without a time: %d %s", status, body)
	}
	if status, body = r.do("POST", pausePath+"?for=1s"); status != http.StatusConflict {
		t.Errorf("for a time after that: %d %s", status, body)
	}
	resume := strings.Replace(pausePath, "/pause", "/resume", 1)
	if status, body = r.do("POST", resume); status != http.StatusOK || strings.Contains(body, `"paused":true`) {
		t.Errorf("resume: %d %s", status, body)
	}
	if status, body = r.do("POST", pausePath+"?for=1h"); status != http.StatusOK {
		t.Errorf("for a time once it runs: %d %s", status, body)
	}
}

func TestPauseParametersAreChecked(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	awaitProbe(t, r.stream(), "ready", ready)
	for path, want := range map[string]string{
		pausePath + "?fro=10m":  `unknown parameter \"fro\"; known: for, reason`,
		pausePath + "?for=soon": "must be a duration such as 10m",
		strings.Replace(pausePath, "/pause", "/resume", 1) + "?for=1m": `unknown parameter \"for\"; resume has none`,
	} {
		if status, body := r.do("POST", path); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes", &probes)
	if len(probes.Items) != 1 || probes.Items[0].Paused {
		t.Errorf("it is paused: %+v", probes.Items)
	}
}

// The limit of the body applies to all actions, also to those that need none.
func TestBodyOfActionIsLimited(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	awaitProbe(t, r.stream(), "ready", ready)
	v := newValidator(t)
	for _, path := range []string{pausePath, strings.Replace(pausePath, "pause", "trigger", 1), "/-/reload"} {
		for size, want := range map[int]int{4096: http.StatusOK, 4097: http.StatusRequestEntityTooLarge, 100_000: http.StatusRequestEntityTooLarge} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost"+path, strings.NewReader(strings.Repeat(" ", size)))
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.local.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if res.Body.Close(); err != nil || res.StatusCode != want {
				t.Errorf("%s with %d bytes: %d %s, %v", path, size, res.StatusCode, body, err)
			}
			if err := v.check("POST", "/-/reload", res.StatusCode, string(body)); err != nil { // as of the others
				t.Error(err)
			}
		}
	}
}
