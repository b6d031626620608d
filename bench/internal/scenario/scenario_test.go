package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/plugin"
)

func TestFiguresOfGoalsAreShown(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range All() {
		if names[s.Name] || s.Title == "" || s.Text == "" || s.Rounds == 0 || s.Run == nil {
			t.Errorf("%q is incomplete, or there are two", s.Name)
		}
		names[s.Name] = true
		shown := func(figure string) bool {
			return slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Figure == figure })
		}
		for _, g := range s.Goals {
			if !shown(g.Figure) || g.AtMost <= 0 || g.Subject == "" {
				t.Errorf("%s: goal %q", s.Name, g.Text)
			}
		}
		if s.Ratio != "" && (!shown(s.Ratio) || s.Peer == "") {
			t.Errorf("%s: ratio of %q", s.Name, s.Ratio)
		}
		for _, p := range s.Plots {
			if !shown(p.Figure) {
				t.Errorf("%s: plot of %q", s.Name, p.Figure)
			}
		}
	}
}

func TestFind(t *testing.T) {
	all := All()
	peers, err := Find([]string{"peers"})
	if err != nil || len(peers) != len(all)-1 {
		t.Errorf("%d of %d, %v", len(peers), len(all), err)
	}
	two, err := Find([]string{"tcp", "scale"})
	if err != nil || len(two) != 2 || two[1].Name != "scale" {
		t.Errorf("%v, %v", two, err)
	}
}

// TestFollowerMeasuresUpdates reads a stream with one tick of each kind.
func TestFollowerMeasuresUpdates(t *testing.T) {
	now := time.Now()
	event := func(kind, pod string, end time.Time) string {
		return fmt.Sprintf("event: %s\ndata: {\"pod\":%q,\"container\":\"app\",\"kind\":\"liveness\",\"last\":{\"time\":%q,\"durationSeconds\":0.5}}\n\n",
			kind, pod, end.Add(-500*time.Millisecond).Format(time.RFC3339Nano))
	}
	stream := strings.Join([]string{
		": heartbeat\n\n",
		event("probe", "early", now.Add(-time.Minute)),
		event("probe", "counts", now.Add(-time.Second)),
		event("probe", "counts", now.Add(-time.Second)), // repeated
		event("pod", "none", now.Add(-time.Second)),
		"event: probe\ndata: {\"pod\":\"new\",\"last\":null}\n\n",
		event("probe", "late", now.Add(time.Minute)),
	}, "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, stream) }))
	defer server.Close()
	f := follower{start: now.Add(-2 * time.Second), end: now.Add(2 * time.Second), period: time.Minute, last: make(map[string]*time.Time)}
	if err := f.follow(t.Context(), server.URL); err == nil {
		t.Error("a stream that ends is not an error")
	}
	if f.late.Count() != 1 || f.late.Max() < time.Second || f.late.Max() > time.Minute {
		t.Errorf("%d updates, the latest %v", f.late.Count(), f.late.Max())
	}
}

// TestParseTickReadsStatus checks the search for fields in the output of encoding/json.
func TestParseTickReadsStatus(t *testing.T) {
	status := api.ProbeStatus{Namespace: "pod", Pod: "web", Container: "app", ContainerID: "kind", Kind: "readiness", Handler: `"kind":"x"`}
	parse := func() (string, time.Time, time.Duration, error) {
		text, err := json.Marshal(&status)
		if err != nil {
			t.Fatal(err)
		}
		key, at, duration, err := parseTick(nil, text)
		return string(key), at, duration, err
	}
	const key = `"web"/"app"/"readiness"/`
	if got, at, _, err := parse(); got != key || !at.IsZero() || err != nil {
		t.Errorf("before the first tick: %s, %v, %v", got, at, err)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	status.Last = &api.TickStatus{Output: `"time":"x","durationSeconds":7`, Error: "}", Time: start, DurationSeconds: 0.25}
	if got, at, duration, err := parse(); got != key || !at.Equal(start) || duration != 250*time.Millisecond || err != nil {
		t.Errorf("after a tick: %s, %v, %v, %v", got, at, duration, err)
	}
	for _, text := range []string{"", "{}", `{"pod":"a","container":"b","kind":"c"}`, `{"pod":"a","container":"b","kind":"c","last":{"time":"x","durationSeconds":1}}`} {
		if _, _, _, err := parseTick(nil, []byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// TestFollowerCountsLostTicks omits ticks of a probe with a period of 10 s.
func TestFollowerCountsLostTicks(t *testing.T) {
	start := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name  string
		ticks []int // in seconds after the start of a window of 30 s
		want  uint64
	}{
		{"none is lost", []int{-5, 5, 15, 25, 35}, 0},
		{"one in the window", []int{-5, 5, 25, 35}, 1},
		{"one before the window", []int{-25, -5, 5, 15, 25}, 0},
		{"the first one in the window", []int{-5, 15, 25}, 1},
		{"the last one", []int{-5, 5, 15}, 1},
		{"late ones", []int{-5, 9, 15, 28}, 0},
		{"all", nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := follower{start: start, end: start.Add(30 * time.Second), period: 10 * time.Second, last: make(map[string]*time.Time)}
			for _, s := range c.ticks {
				at := start.Add(time.Duration(s) * time.Second).Format(time.RFC3339Nano)
				if err := f.update(fmt.Appendf(nil, `{"pod":"web","container":"app","kind":"liveness","last":{"time":%q,"durationSeconds":0}}`, at)); err != nil {
					t.Fatal(err)
				}
			}
			f.finish(1)
			if got := f.late.Lost(); got != c.want {
				t.Errorf("%d lost, want %d", got, c.want)
			}
		})
	}
}

// TestPluginsOfAFolder reads the files of unused plugins, which are sparse.
func TestPluginsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, plugin.ProcessPrefix+"b")
	manifest := func(name string) string { return "apiVersion: prober.dev/v1\nname: " + name + "\nversion: 1.0.0\n" }
	for _, err := range []error{
		writeModule(filepath.Join(dir, "a.wasm"), []byte("\x00asm\x01\x00\x00\x00"), manifest("a"), 1<<20),
		writeSparse(program, []byte("#!/bin/sh\nexit 1\n"), 2<<20),
		os.WriteFile(program+".yaml", []byte(manifest("b")), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := plugin.Find([]string{dir})
	if err != nil || len(found) != 2 {
		t.Fatalf("%d plugins, %v", len(found), err)
	}
	for i, size := range []int{1 << 20, 2 << 20} {
		if got := len(found[i].Module); got < size || got > size+1000 {
			t.Errorf("%s has %d bytes, must be about %d", found[i].Path, got, size)
		}
	}
}
