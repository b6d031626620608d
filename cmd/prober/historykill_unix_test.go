//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// The test compares the history with the answers that the targets of probes have recorded. An answer is one
// tick of its probe. The tick has ended when the next request of the probe arrives. The history must have
// every change that had ended a second before the agent was killed.
func TestKilledAgentsLoseNoTransition(t *testing.T) {
	const agents, probes = 4, 25
	kills := 13
	if race {
		kills = 4
	}
	for n := range agents {
		t.Run(fmt.Sprint("agent=", n), func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, uint64(n), probes)
			for range kills {
				w.runAndKill(t)
			}
			w.compare(t)
		})
	}
}

// answer is a response of a target.
type answer struct {
	code int
	at   time.Time // arrival of its request
}

// seen is a change of the result of a probe.
type seen struct {
	probe        int
	to, text     string
	after, until time.Time // it happened between these
}

// witness has targets whose answers change.
type witness struct {
	dir, manifest, port string
	seen                []seen // changes that must be in the history

	mu      sync.Mutex
	starts  int
	random  *rand.Rand
	codes   []int      // status codes of the targets
	answers [][]answer // answers of the targets to the running agent
}

func newWitness(t *testing.T, seed uint64, probes int) *witness {
	w := &witness{dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), codes: make([]int, probes), answers: make([][]answer, probes)}
	target := httptest.NewServer(w)
	t.Cleanup(target.Close)
	w.port = target.URL[strings.LastIndexByte(target.URL, ':')+1:]
	return w
}

// write writes the manifest of the next agent. Each agent's probes have different URLs, since requests of a
// killed agent may arrive late.
func (w *witness) write(t *testing.T) {
	var text strings.Builder
	for n := range w.codes {
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: Pod
metadata:
  name: p%02d
  annotations:
    prober.dev/probes: |
      web: {readiness: {httpGet: {path: /%d/%d, port: %s, host: 127.0.0.1}, period: 50ms, timeout: 30s, failureThreshold: 1}}
spec: {containers: [{name: web}]}
`, n, w.starts, n, w.port)
	}
	w.manifest = filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(w.manifest, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ServeHTTP answers a probe, mostly with the previous status.
func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var start, n int
	_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &start, &n)
	w.mu.Lock()
	switch {
	case start != w.starts:
		w.mu.Unlock()
		return
	case w.codes[n] != 0 && w.random.IntN(5) > 0:
	case w.codes[n] == 200:
		w.codes[n] = 500 + w.random.IntN(100) // which tells failures apart
	default:
		w.codes[n] = 200
	}
	code := w.codes[n]
	w.answers[n] = append(w.answers[n], answer{code, at})
	w.mu.Unlock()
	rw.WriteHeader(code)
}

// allAnswered reports whether every probe has made an attempt.
func (w *witness) allAnswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.answers, func(a []answer) bool { return len(a) == 0 })
}

// run runs an agent.
func (w *witness) run(t *testing.T) *agentProcess {
	w.mu.Lock()
	w.starts++
	clear(w.answers)
	w.mu.Unlock()
	w.write(t)
	return startAgent(t, nil, "-f", w.manifest, "--state-dir", w.dir)
}

// runAndKill runs an agent, and kills it some time after all of its probes have made an attempt.
func (w *witness) runAndKill(t *testing.T) {
	a := w.run(t)
	var kill <-chan time.Time
	for {
		select {
		case _, ok := <-a.events:
			if !ok {
				t.Fatal("the stream has ended:\n" + a.stderr.String())
			}
			if kill == nil && w.allAnswered() {
				kill = time.After(1100*time.Millisecond + rand.N(400*time.Millisecond))
			}
		case <-kill:
			safe := time.Now().Add(-time.Second)
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
			for range a.events { // which it sent before
			}
			w.testify(safe)
			return
		}
	}
}

// testify records the changes that had happened at a time.
func (w *witness) testify(safe time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, answers := range w.answers {
		last := ""
		for i, of := range answers[:max(len(answers)-1, 0)] {
			next := answers[i+1].at
			s := seen{n, "success", "", of.at, next}
			if of.code != 200 {
				s.to, s.text = "failure", fmt.Sprint("HTTP probe failed with statuscode: ", of.code)
			}
			if s.to != last && next.Before(safe) {
				w.seen = append(w.seen, s)
			}
			last = s.to
		}
	}
}

// compare checks that the history of the next agent has all changes in seen.
func (w *witness) compare(t *testing.T) {
	a := w.run(t)
	deadline := time.After(patience)
	for !w.allAnswered() {
		select {
		case <-a.events:
		case <-deadline:
			t.Fatal("no attempts")
		}
	}
	get := func(path string) (body []byte) {
		res, err := http.Get(a.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err = io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, res.StatusCode, body, err)
		}
		return body
	}
	if checks := get("/readyz?verbose"); strings.Contains(string(checks), "history") {
		t.Errorf("%s", checks)
	}
	kept, starts := make([][]api.Transition, len(w.codes)), 0
	for n := range kept {
		var h api.ProbeHistory
		if err := json.Unmarshal(get(fmt.Sprintf("/api/v1/probes/default/p%02d/web/readiness/history", n)), &h); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(h.Transitions)
		kept[n] = h.Transitions
		for _, of := range h.Transitions {
			if of.From == "absent" {
				starts++
			}
		}
	}
	lost := 0
	for i := range w.seen {
		if !w.seen[i].removeFrom(&kept[w.seen[i].probe]) {
			if lost++; !race { // there a sync may take longer than the half second that the agent counts on
				t.Errorf("lost: %+v", w.seen[i])
			}
		}
	}
	if least := (w.starts - 1) * len(w.codes); starts < least { // the last start may not be written yet
		t.Errorf("probes began %d times, want %d or more", starts, least)
	}
	t.Logf("%d kills, %d changes a second before them or earlier, %d lost", w.starts-1, len(w.seen), lost)
	if race && lost*10 > len(w.seen) {
		t.Errorf("%d of %d changes were lost", lost, len(w.seen))
	}
	if len(w.seen) < 8*(w.starts-1) {
		t.Errorf("only %d changes were seen", len(w.seen))
	}
}

// removeFrom reports whether kept has s. It removes s and all changes before it, since changes are in order.
func (s *seen) removeFrom(kept *[]api.Transition) bool {
	for i, of := range *kept {
		inTime := !of.Time.Before(s.after.Truncate(time.Millisecond)) && !of.Time.After(s.until)
		if inTime && of.To == s.to && (s.text == "" || of.Text == s.text) {
			*kept = (*kept)[i+1:]
			return true
		}
	}
	return false
}
