package notify_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMatchByLabels(t *testing.T) {
	bubble(t, ", groupWait: 0s, match: [{labels: 'team=shop'}, {labels: '!team,stage in (prod)'}]", func(t *testing.T, w *world) {
		w.label("a", "team=shop,stage=prod")
		w.label("b", "team=pay,stage=prod")
		w.label("c", "stage=prod")
		w.label("d", "stage=dev")
		for _, pod := range []string{"a", "b", "c", "d", "unlabelled"} {
			w.setState(pod, failure)
		}
		time.Sleep(time.Minute)
		w.expect("200ms: a failure, c failure")
		for _, a := range w.Status().Items[0].Alerts {
			if a.Labels["stage"] != "prod" || (a.Labels["team"] == "shop") != (a.Pod == "a") {
				t.Errorf("alert: %+v", a)
			}
		}
	})
}

// Relabelling a pod moves its incident to the receivers that select it then.
func TestChangedLabels(t *testing.T) {
	bubble(t, ", groupWait: 0s, groupInterval: 1s, match: [{labels: 'team notin (pay)'}]", func(t *testing.T, w *world) {
		w.label("a", "team=shop")
		w.setState("a", failure)
		time.Sleep(time.Minute)
		w.expect("200ms: a failure")
		w.label("a", "team=shop,version=2")
		time.Sleep(time.Minute)
		w.expect()
		w.label("a", "team=pay")
		time.Sleep(time.Minute)
		w.expect("2m0.2s: a resolved")
		w.label("a", "team=ops")
		time.Sleep(time.Minute)
		w.mu.Lock()
		since := w.letters[0].Probes[0].Since.Sub(w.start)
		w.mu.Unlock()
		if since != 0 {
			t.Errorf("the probe fails since %s, want 0", since)
		}
		w.expect("3m0.2s: a failure")
		w.setState("a", ok)
		w.label("a", "team=shop") // too late for an incident
		time.Sleep(time.Minute)
		w.expect("4m0.2s: a resolved")
	})
}

func TestGroupByLabel(t *testing.T) {
	bubble(t, ", groupWait: 0s, groupInterval: 1s, groupBy: ['label:team', namespace]", func(t *testing.T, w *world) {
		w.label("a", "team=shop")
		w.label("b", "team=shop")
		w.label("c", "stage=prod")
		for _, pod := range []string{"a", "b", "c"} {
			w.setState(pod, failure)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		titles := make(map[string]string) // by team
		shop := ""
		for i := range w.letters {
			team := w.letters[i].Group["label:team"]
			if titles[team] = w.letters[i].Title; team == "shop" {
				shop = w.letters[i].ID
			}
		}
		w.mu.Unlock()
		want := map[string]string{"shop": "2 of default/shop fail: a/app, b/app", "": "c/app readiness fails: text of c"}
		if !maps.Equal(titles, want) {
			t.Errorf("titles %q, want %q", titles, want)
		}
		w.takeLetters()
		w.label("a", "team=pay") // the group of an incident stays the same, so that its end reaches it
		w.setState("a", ok)
		w.setState("b", ok)
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.letters[0].ID != shop {
			t.Errorf("the end is in another group: %+v", w.letters[0].Message)
		}
		w.mu.Unlock()
		w.expect("1m0.2s: a resolved, b resolved")
	})
}

// Labels survive a restart: a receiver that selects by label keeps its incidents. Each message has them.
func TestLabelsInMessagesAndStateFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", groupWait: 0s, groupBy: ['label:team'], match: [{labels: 'team=shop'}]")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
		w.run()
		w.label("a", "team=shop,evil=\x1b[31mred\n")
		w.setState("a", failure)
		time.Sleep(time.Minute)
		w.mu.Lock()
		first := w.letters[0]
		w.mu.Unlock()
		if got := first.Probes[0].Labels; !maps.Equal(got, map[string]string{"team": "shop", "evil": "red"}) {
			t.Errorf("labels %q", got)
		}
		w.expect("200ms: a failure")
		w.stop()
		w.run()
		time.Sleep(time.Minute)
		w.expect()
		w.setState("a", ok)
		time.Sleep(time.Minute)
		w.mu.Lock()
		if last := w.letters[0]; last.ID != first.ID || last.Probes[0].Labels["team"] != "shop" {
			t.Errorf("after a restart: %+v", last.Message)
		}
		w.mu.Unlock()
		w.expect("2m0.2s: a resolved")
	})
}

// Huge labels neither grow a message nor the state file without bound.
func TestHugeLabels(t *testing.T) {
	bubble(t, ", groupWait: 0s", func(t *testing.T, w *world) {
		w.label("a", strings.Repeat("x", 10_000)+"="+strings.Repeat("y", 100_000)+",team=shop")
		var many []string
		for c := 'a'; c < 'a'+300; c++ {
			many = append(many, string(c)+strings.Repeat("n", 60)+"=v")
		}
		w.label("b", strings.Join(many, ","))
		w.setState("a", failure)
		w.setState("b", failure)
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := w.letters[0]; len(got.raw) > 10_000 || got.Probes[0].Labels["team"] != "shop" {
			t.Errorf("message of %d bytes with labels %v", len(got.raw), got.Probes[0].Labels)
		}
	})
}
