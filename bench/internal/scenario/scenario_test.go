package scenario

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestFollowerMeasuresUpdates reads a stream with one tick of each sort.
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
		event("probe", "counts", now.Add(-time.Second)), // told again
		event("pod", "none", now.Add(-time.Second)),
		"event: probe\ndata: {\"pod\":\"new\",\"last\":null}\n\n",
		event("probe", "late", now.Add(time.Minute)),
	}, "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, stream) }))
	defer server.Close()
	f := follower{start: now.Add(-2 * time.Second), end: now.Add(2 * time.Second), last: make(map[string]time.Time)}
	if err := f.follow(t.Context(), server.URL); err == nil {
		t.Error("a stream that ends is not an error")
	}
	if f.late.Count() != 1 || f.late.Max() < time.Second || f.late.Max() > time.Minute {
		t.Errorf("%d updates, the latest %v", f.late.Count(), f.late.Max())
	}
}
