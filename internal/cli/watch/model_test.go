package watch_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/watch"
)

var update = flag.Bool("update", false, "write the golden screens")

var start = time.Date(2026, 11, 23, 22, 0, 0, 0, time.UTC)

// probeOf returns a probe that ticked some seconds after the start.
func probeOf(pod, container, result string, seconds int) api.ProbeStatus {
	return api.ProbeStatus{
		Namespace: "default", Pod: pod, UID: pod, Container: container, Kind: "readiness", Handler: "http", Result: result, Run: seconds + 1,
		Last: &api.TickStatus{Result: result, Output: "ok", Time: start.Add(time.Duration(seconds) * time.Second), DurationSeconds: 0.001 * float64(1+seconds%10)},
	}
}

// screen is a model with its clock and connection.
type screen struct {
	*watch.Model
	link    watch.Link
	now     time.Time
	carried []watch.Command // commands of the pressed keys
}

func newScreen(change ...func(*watch.Config)) *screen {
	cfg := &watch.Config{Server: "unix:/run/prober/prober.sock"}
	for _, c := range change {
		c(cfg)
	}
	s := &screen{Model: watch.New(cfg, start), now: start, link: watch.Link{Connected: true, Epoch: 1, Since: start}}
	s.Resize(120, 10)
	s.show()
	return s
}

func (s *screen) show(probes ...api.ProbeStatus) {
	var changes []watch.Change
	for _, p := range probes {
		changes = append(changes, watch.Change{Probe: p})
	}
	s.Apply(changes, s.link, s.now)
}

// pass lets time pass without changes.
func (s *screen) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.show()
}

// press presses keys: names of keys, and texts that are typed.
func (s *screen) press(keys ...string) {
	named := []string{"enter", "esc", "up", "down", "pgup", "pgdown", "home", "end", "backspace", "ctrl+c", "ctrl+u", "space"}
	for _, k := range keys {
		if slices.Contains(named, k) {
			s.key(k, map[string]string{"space": " "}[k])
			continue
		}
		for _, r := range k {
			s.key(string(r), string(r))
		}
	}
}

func (s *screen) key(name, text string) {
	if c := s.Key(name, text); c.Do != "" {
		s.carried = append(s.carried, c)
	}
}

// golden compares the screen with a file of testdata.
func (s *screen) golden(t *testing.T, name string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(s.View(), "\n") {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got); -update writes it\n%s", path, diff)
	}
}

func TestScreens(t *testing.T) {
	s := newScreen()
	s.golden(t, "empty")
	for i := range 25 {
		s.now = start.Add(time.Duration(i) * time.Second)
		web := probeOf("shop", "web", "success", i)
		if i > 20 {
			web.Result, web.Last.Result, web.Last.Output = "failure", "failure", "HTTP probe failed with statuscode: 503"
		}
		s.show(web, probeOf("shop", "cache", "success", i))
	}
	waiting := probeOf("shop", "new", "unknown", 0)
	waiting.Last, waiting.Run, waiting.Gate = nil, 0, "initial delay, 4s left"
	paused := probeOf("db", "postgres", "success", 3)
	paused.Paused, paused.PauseReason, paused.Gate = true, "the disk is replaced", "paused"
	s.show(waiting, paused)
	s.pass(2 * time.Second)
	s.golden(t, "table")
	s.Resize(60, 10)
	s.golden(t, "narrow")
	s.Resize(20, 3)
	s.golden(t, "tiny")
	s.Resize(120, 10)
	s.press("s", "s")
	s.golden(t, "by-name")
	s.press("?")
	s.golden(t, "keys")
	s.press("x", "s")
	s.press("/", "shop", "space", "web")
	s.golden(t, "filtering")
	s.press("enter")
	s.golden(t, "filtered")
	s.press("esc", "p", "backspace", "s")
	s.golden(t, "pausing")
	s.press("esc")
	s.link = watch.Link{Epoch: 1, Err: "dial unix /run/prober/prober.sock: connection refused"}
	s.pass(time.Second)
	s.golden(t, "reconnecting")
	s.press("enter")
	shown := s.Shown()
	s.SetDetails(shown, "Probe:   shop/web\nHistory:\n  1s ago  \x1b[31mfailure\n")
	s.golden(t, "details")
}

func TestColors(t *testing.T) {
	s := newScreen(func(c *watch.Config) { c.Color = true })
	s.show(probeOf("a", "web", "failure", 0), probeOf("b", "web", "failure", 0))
	if text := s.View(); !strings.Contains(text, "\x1b[31mfailure\x1b[m") || !strings.Contains(text, "\x1b[7m> a/web") {
		t.Errorf("got %q", text)
	}
	s = newScreen()
	s.show(probeOf("b", "web", "failure", 0))
	if text := s.View(); strings.Contains(text, "\x1b") {
		t.Errorf("without colors: %q", text)
	}
}

// selected returns the row with the cursor.
func (s *screen) selected() string {
	for line := range strings.Lines(s.View()) {
		if row, ok := strings.CutPrefix(line, "> "); ok {
			return strings.Fields(row)[0]
		}
	}
	return ""
}

func TestKeysMove(t *testing.T) {
	s := newScreen()
	var probes []api.ProbeStatus
	for i := range 100 {
		probes = append(probes, probeOf(fmt.Sprintf("p%02d", i), "web", "success", 0))
	}
	s.show(probes...)
	for _, c := range []struct{ keys, want string }{
		{"", "p00/web"}, {"k", "p00/web"}, {"j", "p01/web"}, {"down", "p02/web"}, {"up", "p01/web"}, {"pgdown", "p08/web"}, {"G", "p99/web"}, {"j", "p99/web"},
		{"pgup", "p92/web"}, {"home", "p00/web"}, {"end", "p99/web"}, {"g", "p00/web"}, {"space", "p07/web"}, {"x", "p07/web"},
	} {
		s.press(c.keys)
		if got := s.selected(); got != c.want {
			t.Errorf("after %s: %s, want %s", c.keys, got, c.want)
		}
	}
	s.show(probeOf("a", "web", "success", 0)) // comes before it
	if got := s.selected(); got != "p07/web" {
		t.Errorf("after another probe came: %s", got)
	}
	s.Resize(120, 5)
	if got := s.selected(); got != "p07/web" {
		t.Errorf("after the terminal became smaller: %s", got)
	}
	s.Apply([]watch.Change{{Probe: probes[7], Removed: true}}, s.link, s.now)
	if got := s.selected(); got != "p08/web" {
		t.Errorf("after it was removed: %s", got)
	}
}

// order returns the pods of the rows.
func (s *screen) order() string {
	var pods []string
	for _, line := range strings.Split(s.View(), "\n")[2:] {
		if name, _, ok := strings.Cut(strings.TrimLeft(line, "> "), "/web"); ok {
			pods = append(pods, name)
		}
	}
	return strings.Join(pods, " ")
}

// Failures are first. Below the first row the order is held, so that no row moves while a user reads.
func TestOrderIsHeldWhileReading(t *testing.T) {
	s := newScreen()
	s.show(probeOf("a", "web", "success", 0), probeOf("b", "web", "success", 0), probeOf("c", "web", "failure", 0))
	want := func(when, order, selected string) {
		t.Helper()
		if got := s.order(); got != order || s.selected() != selected+"/web" {
			t.Errorf("%s: %s with the cursor at %s, want %s and %s", when, got, s.selected(), order, selected)
		}
	}
	want("at the start", "c a b", "c")
	s.show(probeOf("b", "web", "failure", 1))
	want("without a key", "b c a", "b")
	s.press("j")
	s.show(probeOf("a", "web", "failure", 1), probeOf("b", "web", "success", 2), probeOf("0", "web", "failure", 1))
	want("while the user reads", "b c a 0", "c")
	if !strings.Contains(s.View(), "s sort: state (held, g ends it)") {
		t.Errorf("the hold is not shown:\n%s", s.View())
	}
	s.Apply([]watch.Change{{Probe: probeOf("b", "web", "success", 2), Removed: true}}, s.link, s.now)
	want("after a probe was removed", "c a 0", "c")
	s.press("j", "k", "k")
	want("back in the first row", "0 a c", "0")
	s.press("j", "s", "s")
	want("sorted by name", "0 a c", "0")
}

func TestKeysAct(t *testing.T) {
	s := newScreen()
	s.press("enter", "t", "p", "enter")
	if len(s.carried) > 0 {
		t.Errorf("without probes: %+v", s.carried)
	}
	s.show(probeOf("shop", "web", "success", 0))
	s.press("t", "r", "p", "enter", "p", "ctrl+u", "enter", "p", "esc", "p", "ctrl+u", "1h", "enter",
		"p", "1", "0", "m", "enter", "p", "backspace", "s", "enter", "enter", "esc", "q", "/", "q", "ctrl+c")
	var got []string
	for _, c := range s.carried {
		got = append(got, strings.TrimSpace(c.Do+" "+c.Probe.Pod+" "+c.Pause))
	}
	want := []string{"trigger shop", "resume shop", "pause shop 10m", "pause shop", "pause shop 1h", "pause shop 10m", "pause shop 10s", "details shop", "quit", "quit"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s = newScreen(func(c *watch.Config) { c.ReadOnly = "actions over TCP need --token-file" })
	s.show(probeOf("shop", "web", "success", 0))
	s.press("t", "p", "r")
	if lines := strings.Split(s.View(), "\n"); len(s.carried) > 0 || !strings.HasPrefix(lines[len(lines)-1], "actions over TCP need --token-file") {
		t.Errorf("%+v\n%s", s.carried, s.View())
	}
}

// A new connection sends all probes again. The model drops probes that it does not send.
func TestReconnectDropsProbesThatAreGone(t *testing.T) {
	s := newScreen()
	s.show(probeOf("stays", "web", "success", 0), probeOf("goes", "web", "success", 0))
	s.link = watch.Link{Epoch: 1, Err: "EOF"}
	s.pass(time.Hour)
	if text := s.View(); !strings.Contains(text, "goes/web") || !strings.Contains(text, "reconnecting: EOF") {
		t.Errorf("without a connection:\n%s", text)
	}
	s.link = watch.Link{Connected: true, Epoch: 2, Since: s.now}
	s.pass(time.Second)
	s.show(probeOf("stays", "web", "success", 1))
	if text := s.View(); !strings.Contains(text, "goes/web") || strings.Contains(text, "reconnecting") {
		t.Errorf("after a second:\n%s", text)
	}
	s.pass(10 * time.Second)
	if text := s.View(); strings.Contains(text, "goes/web") || !strings.Contains(text, "stays/web") {
		t.Errorf("after ten seconds:\n%s", text)
	}
}

func TestHistoryComesBeforeTicks(t *testing.T) {
	s := newScreen(func(c *watch.Config) { c.ASCII = true })
	now := probeOf("shop", "web", "success", 30)
	s.show(now)
	wanted := s.Wanted(8)
	if len(wanted) != 1 || len(s.Wanted(8)) != 0 {
		t.Errorf("wanted %+v", wanted)
	}
	for i := range 19 {
		now.History = append(now.History, api.TickStatus{Result: map[bool]string{true: "failure", false: "success"}[i%2 == 1], Time: start.Add(time.Duration(30-i) * time.Second)})
	}
	s.SetHistory(&now)
	s.show(probeOf("shop", "web", "success", 31))
	if text := s.View(); !strings.Contains(text, ".F.F.F.F.F.F.F.F.F..") {
		t.Errorf("got\n%s", text)
	}
}

// For any text of a target, a plugin or an agent, and any size of the terminal, no line is longer than the
// terminal, and no escape sequence is printed.
func TestHostileTextsKeepTheScreen(t *testing.T) {
	evil := "\x1b]0;title\x07\x1b[2J\x1b[31m<b>\r\nnew\u202eline\u2066\xff\x9b31m" + strings.Repeat("é世", 300)
	p := probeOf(evil, evil, evil, 0)
	p.Namespace, p.Kind, p.Handler, p.Last.Error, p.Paused, p.PauseReason = evil, evil, evil, evil, true, evil
	other := probeOf("x", "y", "failure", 0)
	other.Last.Output = evil
	for _, color := range []bool{false, true} {
		s := newScreen(func(c *watch.Config) { c.Server, c.Color, c.ReadOnly = evil, color, evil })
		s.show(p, other)
		check := func(what string) {
			t.Helper()
			text := s.View()
			for i, line := range strings.Split(text, "\n") {
				shown := strings.NewReplacer("\x1b[m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[7m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "").Replace(line)
				if !color && shown != line || strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2066' }) {
					t.Errorf("%s: line %d: %q", what, i, line)
				}
			}
		}
		for width := 1; width < 200; width += 7 {
			for _, height := range []int{1, 2, 3, 4, 30} {
				s.Resize(width, height)
				check(fmt.Sprintf("%d x %d", width, height))
				lines := strings.Split(s.View(), "\n")
				if len(lines) > height {
					t.Errorf("%d x %d: %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					if n := ansi.StringWidth(line); n > width {
						t.Errorf("%d x %d: %d columns in %q", width, height, n, line)
					}
				}
			}
		}
		s.Resize(80, 10)
		s.key("/", "/")
		s.key("x", evil) // pasted
		check("a filter")
		s.press("esc", "t")
		check("a note")
		s.press("enter")
		s.SetDetails(s.Shown(), evil+"\n"+evil)
		check("details")
		s.link = watch.Link{Epoch: 1, Err: "EOF"}
		s.pass(time.Second)
		check("no connection")
	}
}

// BenchmarkFrame is one frame with 10,000 probes, of which 1,000 have changed.
func BenchmarkFrame(b *testing.B) {
	s := newScreen()
	s.Resize(200, 50)
	probes := make([]api.ProbeStatus, 10_000)
	for i := range probes {
		probes[i] = probeOf(fmt.Sprintf("pod-%05d", i), "web", "success", 0)
	}
	s.show(probes...)
	n := 0
	for b.Loop() {
		s.now = s.now.Add(100 * time.Millisecond)
		s.show(probes[n*1000 : n*1000+1000]...)
		n = (n + 1) % 10
		_ = s.View()
	}
}
