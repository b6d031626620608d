package perfdata_test

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/probe"
)

// item is a metric with the label of the item that it was made from.
type item struct {
	Label string
	Value float64
	Unit  string
}

func items(text string) (all []item) {
	for _, m := range perfdata.Read(text, 64, strings.Clone).Metrics {
		all = append(all, item{cmp.Or(m.Labels["label"], m.Name), m.Value, m.Unit})
	}
	return all
}

// Reported as monitoring-plugins 1374.
func TestReadItems(t *testing.T) {
	for text, want := range map[string][]item{
		"":                            nil,
		"   ":                         nil,
		"time=0.008s":                 {{Label: "time", Value: 0.008, Unit: "s"}},
		" load1=0.5 ":                 {{Label: "load1", Value: 0.5}},
		"a=1ms b=2us":                 {{Label: "a", Value: 1, Unit: "ms"}, {Label: "b", Value: 2, Unit: "us"}},
		"a=1\tb=2\nc=3":               {{Label: "a", Value: 1}, {Label: "b", Value: 2}, {Label: "c", Value: 3}},
		"/=2643MB;5948;5958;0;5968":   {{Label: "/", Value: 2643, Unit: "MB"}},
		"a=5;@10:20;~:30":             {{Label: "a", Value: 5}},
		"a=5;;;0":                     {{Label: "a", Value: 5}},
		"a=5;1;2;x;100;6;7":           {{Label: "a", Value: 5}},
		"'a label'=3%":                {{Label: "a label", Value: 3, Unit: "%"}},
		"'it''s'=1c":                  {{Label: "it's", Value: 1, Unit: "c"}},
		"''''=1":                      {{Label: "'", Value: 1}},
		"'a=b'=1":                     {{Label: "a=b", Value: 1}},
		"a=-1.5e3B b=+.5KB c=7.GB":    {{Label: "a", Value: -1500, Unit: "B"}, {Label: "b", Value: .5, Unit: "KB"}, {Label: "c", Value: 7, Unit: "GB"}},
		"time=1,334s b=1":             {{Label: "b", Value: 1}},
		"a=1e b=2TB":                  {{Label: "a", Value: 1, Unit: "e"}, {Label: "b", Value: 2, Unit: "TB"}},
		"a=U b=1":                     {{Label: "b", Value: 1}},
		"a= b=1":                      {{Label: "b", Value: 1}},
		"word =4 a=x 'open b=1":       nil,
		"word b=1":                    {{Label: "b", Value: 1}},
		"'closed' b=1":                {{Label: "b", Value: 1}},
		"''=1 b=1":                    {{Label: "b", Value: 1}},
		"a=inf b=NaN c=0x10 d=1e999 ": nil,
		"größe=1":                     {{Label: "größe", Value: 1}},
	} {
		if diff := gocmp.Diff(want, items(text)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
}

// Each part is a wrong number to a reader that takes its beginning.
func TestReadIgnoresMalformedItems(t *testing.T) {
	for _, part := range []string{
		"a=1.2.3", "a=1,5s", "a=1,334s", "a=1.334,5", "a=0x10", "a=0X1F", "a=0b11", "a=0o7", "a=1_000", "a=inf", "a=-Inf", "a=NaN", "a=nan%", "a=1e999", "a=12abc34",
		"a=1-2", "a=1-", "a=1+", "a=1:2", "a=10:", "a=@1:2", "a=~", "a=1/2", "a=10..", "a=1.5.", "a=..5", "a=.", "a=-", "a=+", "a=", "a=--5", "a=+-5", "a=- 5", "a=1 334s",
		"a=1 000", "a=10 KB", "a=1\u00a0334", "a=1\u202f334s", "a=1\u2019000", "a=1'000", "a='1'", `a="1"`, "a=1\"", "a=1ms,s=4", "a=1s,b", "a=1|b=2", "a=1=2", "a==1",
		"a=\u0661\u0662", "a=1\u066b5", "a=½", "a=1²3", "a=u", "a=UU", "a=U1", "a=unknown", "a=true", "a=10e2e3", "a=1e5.5", "a=1e+", "a=1e-", "a=s1", "a=$5", "=1", "word",
		"''=1", "'a'1", "'a' =1", "'a", "a=1\x00",
	} {
		for _, text := range []string{part, "first=1 " + part, part + " 'last'=2"} {
			r := perfdata.Read(text, 64, strings.Clone)
			for _, m := range r.Metrics {
				if m.Name != "first" && m.Name != "last" {
					t.Errorf("%q: got %+v", text, m)
				}
			}
			if r.Malformed == "" || !strings.Contains(r.Ignored(), "performance data is ignored: ") {
				t.Errorf("%q: got %+v", text, r)
			}
		}
	}
	for _, part := range []string{
		"a=1", "a=U", "a=U;1;2;0;9", "a=1;x;y;z", "a=-1.5e3B;;;", "a=.5", "a=5.", "a=+3", "a=1e5s", "a=10KB", "a=3µs", "a=20°C", "a=7B/s", "'it''s'=1%", "", " ", "a=1;2;3 b=U",
	} {
		if r := perfdata.Read(part, 64, strings.Clone); r.Malformed != "" || r.Ignored() != "" {
			t.Errorf("%q: got %+v", part, r)
		}
	}
	if r := perfdata.Read("password=1,5", 9, func(text string) string { return strings.ReplaceAll(text, "1,5", "[redacted]") }); strings.Contains(r.Malformed, "1,5") {
		t.Errorf("got %q", r.Malformed)
	}
	if r := perfdata.Read(strings.Repeat("x", 1<<20), 9, strings.Clone); len(r.Malformed) > 100 {
		t.Errorf("got %d bytes", len(r.Malformed))
	}
}

func TestSplit(t *testing.T) {
	for output, want := range map[string][2]string{
		"":                                    {"", " "},
		"OK\n":                                {"OK", " "},
		"OK - all well | a=1\n":               {"OK - all well", " a=1 "},
		"| a=1":                               {"", " a=1 "},
		"OK|a=1|b=2":                          {"OK", "a=1|b=2 "},
		"OK\nmore\nand more\n":                {"OK\nmore\nand more", " "},
		"OK | a=1\nmore\nlast | b=2\nc=3\n":   {"OK\nmore\nlast", " a=1  b=2\nc=3"},
		"OK | a=1\r\nmore\r\nlast | b=2\r\n ": {"OK\nmore\r\nlast", " a=1\r  b=2"},
	} {
		if message, numbers := perfdata.Split(output); message != want[0] || numbers != want[1] {
			t.Errorf("%q: got %q and %q, want %q", output, message, numbers, want)
		}
	}
}

func TestRead(t *testing.T) {
	r := perfdata.Read("load1=0.5 'Disk /var'=1MB Rta=3ms 5min=1 a=1"+strings.Repeat("x", 33)+" last=1 more=1", 5, strings.Clone)
	want := []probe.Metric{
		{Name: "load1", Value: 0.5},
		{Name: "disk__var", Value: 1, Unit: "MB", Labels: map[string]string{"label": "Disk /var"}},
		{Name: "rta", Value: 3, Unit: "ms", Labels: map[string]string{"label": "Rta"}},
		{Name: "_5min", Value: 1, Labels: map[string]string{"label": "5min"}},
		{Name: "last", Value: 1},
	}
	if diff := gocmp.Diff(want, r.Metrics); diff != "" || !r.More {
		t.Errorf("more %t, (-want +got)\n%s", r.More, diff)
	}
	if r := perfdata.Read("a=1", 1, strings.Clone); len(r.Metrics) != 1 || r.More {
		t.Errorf("got %+v", r)
	}
}

var validName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func TestMetricNameIsValid(t *testing.T) {
	for label, want := range map[string]string{
		"a": "a", "A-b.c": "a_b_c", "9": "_9", "größe": "gr__e", strings.Repeat("9", 300): "_" + strings.Repeat("9", 127),
	} {
		metrics := perfdata.Read(label+"=1", 1, strings.Clone).Metrics
		if len(metrics) != 1 || metrics[0].Name != want || len(want) > 128 || !validName.MatchString(want) {
			t.Errorf("%q: got %+v, want %q", label, metrics, want)
		}
	}
}

// The grammar of the plugin guidelines, as a regular expression. Values may have a plus sign and an exponent, since
// these are read by their meaning.
const (
	strictLabel  = `(?:'((?:[^']|'')+)'|([^'=\s][^=\s]*))`
	strictNumber = `([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)`
	strictUnit   = `([^\p{Nd}\p{Cc}\p{Z}\s;'"=,.:+\-_|@~\x{2019}\x{66b}\x{66c}]*)`
	strictItem   = strictLabel + `=(?:U|` + strictNumber + strictUnit + `)(?:;[^\t\n\v\f\r ]*)?`
	space        = `[\t\n\v\f\r ]`
)

var (
	strictText  = regexp.MustCompile(`^` + space + `*(?:` + strictItem + `(?:` + space + `+|$))*$`)
	strictItems = regexp.MustCompile(`^` + strictItem + `(?:` + space + `|$)`)
)

// strictly returns the items of text, each of which begins after a space. An item within a quoted label is one too.
func strictly(text string) (all []item) {
	for i := range len(text) {
		if i > 0 && !strings.ContainsRune("\t\n\v\f\r ", rune(text[i-1])) {
			continue
		}
		m := strictItems.FindStringSubmatch(text[i:])
		if m == nil || m[3] == "" {
			continue
		}
		value, _ := strconv.ParseFloat(m[3], 64)
		all = append(all, item{cmp.Or(strings.ReplaceAll(m[1], "''", "'"), m[2]), value, m[4]})
	}
	return all
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"OK | time=0.008s;;;0 size=12B", "X\nlong | 'it''s a label'=-1.5e3%;@1:2;~:3;0;100\n'open", "|''=1 U=U;;;;", "a|=1 ' '=2 '\xff'=3µ",
		"OK | a=1.2.3 b=1,5s c=0x10 d=1_000 e=inf f=NaN g=+3 h=.5 i=5. j=1e5s k=12abc34 l=-5;~:3;@1:2 m=1-2 n=10 KB 'o''p'=1 q=1B;;;0;x r=3ms,s=4",
		"OK fine|time=1,334s;;;0,000000 good=2s u=U;0;;0;1 s=cli 'my disk'=2.5GB;1;2;0;9 exp=1e3 neg=-4.5% big=2.882G load1=0.010;5.000;9.000;0;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, output string) {
		message, numbers := perfdata.Split(output)
		if strings.Contains(message, "|") || len(message) > len(output) {
			t.Errorf("message %q", message)
		}
		if utf8.ValidString(output) && !utf8.ValidString(message) {
			t.Error("the message is cut within a character")
		}
		numbers = strings.ToValidUTF8(numbers, "\uFFFD")
		r := perfdata.Read(numbers, 64, strings.Clone)
		for _, m := range r.Metrics {
			if !validName.MatchString(m.Name) || len(m.Name) > 128 || len(m.Unit) > 32 || strings.ContainsAny(m.Unit, "; \n") ||
				math.IsInf(m.Value, 0) || math.IsNaN(m.Value) {
				t.Errorf("got metric %+v", m)
			}
			if got := (item{cmp.Or(m.Labels["label"], m.Name), m.Value, m.Unit}); !slices.Contains(strictly(numbers), got) {
				t.Errorf("%q has no item %+v", numbers, got)
			}
		}
		if strict := strictText.MatchString(numbers); !strict && r.Malformed == "" && !r.More {
			t.Errorf("%q is not well-formed, and nothing is ignored: %+v", numbers, r)
		}
	})
}
