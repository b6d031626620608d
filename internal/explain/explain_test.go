package explain_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

func TestExcerptEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		`{"error": "no database"}`: `{"error": "no database"}`,
		"down\n":                   `down\n`,
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"a\x00b\x7f":               `a\x00b\x7f`,
		"\u009b2J":                 `\u009b2J`,
		"\u202eevil":               `\u202eevil`,
		"\u2028":                   `\u2028`,
		"\xff\xfe":                 `\xff\xfe`,
		"\ufffd":                   "\ufffd",
		`\x1b`:                     `\\x1b`,
		"grün 🙂":                   "grün 🙂",
	} {
		if got := explain.Excerpt(text, 256); got != want {
			t.Errorf("Excerpt(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestExcerptLengthIsBounded(t *testing.T) {
	for _, piece := range []string{"a", "\x1b", "ü", "🙂", "\xff", "\\"} {
		for n := range 20 {
			text := strings.Repeat(piece, n)
			got := explain.Excerpt(text, 16)
			if len(got) > 16 || !utf8.ValidString(got) {
				t.Errorf("Excerpt(%q, 16) = %q, %d bytes", text, got, len(got))
			}
			if whole := explain.Excerpt(text, 1000); len(whole) <= 16 && got != whole || len(whole) > 16 && !strings.HasSuffix(got, "…") {
				t.Errorf("Excerpt(%q, 16) = %q, the whole is %q", text, got, whole)
			}
		}
	}
}

func FuzzExcerptIsSafe(f *testing.F) {
	f.Add("a\x1b[2J\xff\u202e\\")
	f.Fuzz(func(t *testing.T, text string) {
		got := explain.Excerpt(text, 256)
		if len(got) > 256 || !utf8.ValidString(got) {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		for _, r := range got {
			if !strconv.IsPrint(r) && r != utf8.RuneError {
				t.Fatalf("%q has %U", got, r)
			}
		}
		if strings.HasSuffix(got, "…") {
			return
		}
		back, err := strconv.Unquote(`"` + strings.ReplaceAll(got, `"`, `\"`) + `"`)
		if err != nil || back != text {
			t.Fatalf("%q reads back as %q: %v", got, back, err)
		}
	})
}

func TestReadReturnsDetails(t *testing.T) {
	d := explain.Details{
		Waiting: "read tcp 10.0.0.7:5432: waiting for 1s", Body: `{"a": "<b>"}`,
		Awaited: explain.Awaited{Call: "read", Where: "tcp 10.0.0.7:5432", Saw: "no answer"},
	}
	if !json.Valid([]byte(d.String())) {
		t.Errorf("%s is not JSON", d)
	}
	if got := explain.Read(d.String()); got != d {
		t.Errorf("got %+v, want %+v", got, d)
	}
	if got := explain.Read(`{"waiting": 3, "body": {"a": 1}, "awaited": {"call": "read", "where": 1}, "slots": 2}`); got != (explain.Details{}) {
		t.Errorf("the fields of a plugin: got %+v, want none", got)
	}
	if got := (explain.Details{}).String(); got != "" {
		t.Errorf("empty details: got %q", got)
	}
}

func TestWaitIsOneLine(t *testing.T) {
	w := &explain.Wait{
		Call: "read", Where: "tcp 10.0.0.7:5432", For: 998400 * time.Microsecond,
		Saw: []string{"connected after 1ms", explain.Bytes(24, 0)},
	}
	const want = "read tcp 10.0.0.7:5432: waiting for 998ms; connected after 1ms; 24 bytes sent, 0 received"
	if got := w.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e := w.Event(); e.Name != "read" || e.Detail != "tcp 10.0.0.7:5432: connected after 1ms; 24 bytes sent, 0 received" || e.Duration != w.For {
		t.Errorf("event %+v", e)
	}
	w = &explain.Wait{Call: "guest", Doing: "computing"}
	if got := w.String(); got != "guest: computing" {
		t.Error(got)
	}
}

func TestCPUDistinguishesLoopFromSleep(t *testing.T) {
	for used, want := range map[time.Duration]string{
		2 * time.Millisecond:   "it waited: 2ms of processor time, without its children",
		200 * time.Millisecond: "it computed some of the time: 200ms of processor time, without its children",
		980 * time.Millisecond: "it computed: 980ms of processor time, without its children",
	} {
		if got := explain.CPU(used, time.Second); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCommandQuotesWordsForShell(t *testing.T) {
	got := explain.Command([]string{"/usr/bin/pg_isready", "", "a b", "\x1b[2J", "$HOME"})
	if want := `/usr/bin/pg_isready "" "a b" "\x1b[2J" "$HOME"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestShortCommandIsTruncated(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	for _, words := range [][]string{nil, {"a", "b c"}, {long}, {"sh", "-c", long, "x"}, slices.Repeat([]string{"word"}, 10_000)} {
		whole, short := explain.Command(words), explain.ShortCommand(words)
		if !strings.HasPrefix(whole, strings.TrimSuffix(short, `"`)) || len(whole) < 1000 && short != whole || len(short) > 1100 || !utf8.ValidString(short) {
			t.Errorf("%d words: %d bytes of %d: %.50q", len(words), len(short), len(whole), short)
		}
	}
}

// A rounded duration has few digits, and is not 0 for a duration of at least a microsecond.
func FuzzRoundIsShort(f *testing.F) {
	for _, d := range []time.Duration{0, 499, 500, time.Microsecond, 99_999, 100_000, 9_999_999, 10_000_000, time.Second, time.Hour, 1<<63 - 1} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if d < 0 || d > 24*time.Hour {
			return
		}
		got := explain.Round(d)
		if off := (got - d).Abs(); off > max(d/20, 500*time.Nanosecond) || d >= time.Microsecond && got == 0 || got < 0 {
			t.Errorf("%v is %v", d, got)
		}
		if text := got.String(); len(text) > len("23h59m59.999s") {
			t.Errorf("%v is %q", d, text)
		}
	})
}

func TestAwaitedIsEqualForEqualCauses(t *testing.T) {
	var causes []string
	for n := range 2 {
		out := probe.Outcome{Output: "timed out after 1s"}
		w := &explain.Wait{
			Call: "read", Where: "tcp 10.0.0.7:5432", For: time.Duration(n) * time.Second, Saw: []string{"24 bytes sent, 0 received"},
			Own: []string{"in " + strconv.Itoa(n+2) + " calls"},
		}
		w.Report(nil, &out)
		d := explain.Read(out.Details)
		if !strings.HasSuffix(d.Waiting, "; 24 bytes sent, 0 received; "+w.Own[0]) {
			t.Errorf("waiting %q", d.Waiting)
		}
		causes = append(causes, d.Awaited.After(out.Output))
	}
	const want = "timed out after 1s: read tcp 10.0.0.7:5432: 24 bytes sent, 0 received"
	if causes[0] != want || causes[1] != want {
		t.Errorf("got %q, want %q", causes, want)
	}
}

func TestAwaitedAfterOutput(t *testing.T) {
	for _, c := range []struct {
		name, output, want string
		wait               explain.Wait
	}{
		{"place in the output", "dial tcp 10.0.0.7:80: i/o timeout", "dial tcp 10.0.0.7:80: i/o timeout: no answer to the SYN", explain.Wait{Call: "dial", Where: "tcp 10.0.0.7:80", Saw: []string{"no answer to the SYN"}}},
		{"no place", "timed out after 1s", "timed out after 1s: guest: computing; no host call", explain.Wait{Call: "guest", Doing: "computing", Saw: []string{"no host call"}}},
		{"nothing seen", "timed out after 1s", "timed out after 1s: read", explain.Wait{Call: "read"}},
		{"output with the cause", "no line matches; the deadline of 1s has passed", "no line matches; the deadline of 1s has passed", explain.Wait{Call: "read", Told: true}},
		{"line breaks", "timed out after 1s", `timed out after 1s: exec sh -c "a b": still running; no output`, explain.Wait{Call: "exec", Where: "sh -c \"a\nb\"", Doing: "still running", Saw: []string{"no output"}}},
	} {
		out := probe.Outcome{Output: c.output}
		c.wait.Describe(&out)
		if got := explain.Read(out.Details).Awaited.After(c.output); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAwaitedIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var out probe.Outcome
	(&explain.Wait{Call: long, Where: long, Saw: []string{long}}).Describe(&out)
	if got := explain.Read(out.Details).Awaited.After(""); len(got) > 2000 {
		t.Errorf("%d bytes", len(got))
	}
}
