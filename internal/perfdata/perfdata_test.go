package perfdata_test

import (
	"cmp"
	"math"
	"regexp"
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
	metrics, _ := perfdata.Metrics(text, 64, strings.Clone)
	for _, m := range metrics {
		all = append(all, item{cmp.Or(m.Labels["label"], m.Name), m.Value, m.Unit})
	}
	return all
}

// Reported as monitoring-plugins 1374.
func TestMetricsReadsItems(t *testing.T) {
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
		"a=inf b=NaN c=0x10 d=1e999 ": {{Label: "c", Value: 0, Unit: "x10"}},
		"größe=1":                     {{Label: "größe", Value: 1}},
	} {
		if diff := gocmp.Diff(want, items(text)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
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

func TestMetrics(t *testing.T) {
	got, more := perfdata.Metrics("load1=0.5 'Disk /var'=1MB Rta=3ms 5min=1 a=1"+strings.Repeat("x", 33)+" last=1 more=1", 5, strings.Clone)
	want := []probe.Metric{
		{Name: "load1", Value: 0.5},
		{Name: "disk__var", Value: 1, Unit: "MB", Labels: map[string]string{"label": "Disk /var"}},
		{Name: "rta", Value: 3, Unit: "ms", Labels: map[string]string{"label": "Rta"}},
		{Name: "_5min", Value: 1, Labels: map[string]string{"label": "5min"}},
		{Name: "last", Value: 1},
	}
	if diff := gocmp.Diff(want, got); diff != "" || !more {
		t.Errorf("more %t, (-want +got)\n%s", more, diff)
	}
	if got, more := perfdata.Metrics("a=1", 1, strings.Clone); len(got) != 1 || more {
		t.Errorf("got %v, more %t", got, more)
	}
}

var validName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func TestMetricNameIsValid(t *testing.T) {
	for label, want := range map[string]string{
		"a": "a", "A-b.c": "a_b_c", "9": "_9", "größe": "gr__e", strings.Repeat("9", 300): "_" + strings.Repeat("9", 127),
	} {
		metrics, _ := perfdata.Metrics(label+"=1", 1, strings.Clone)
		if len(metrics) != 1 || metrics[0].Name != want || len(want) > 128 || !validName.MatchString(want) {
			t.Errorf("%q: got %+v, want %q", label, metrics, want)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	for _, seed := range []string{
		"OK | time=0.008s;;;0 size=12B", "X\nlong | 'it''s a label'=-1.5e3%;@1:2;~:3;0;100\n'open", "|''=1 U=U;;;;", "a|=1 ' '=2 '\xff'=3µ",
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
		metrics, _ := perfdata.Metrics(numbers, 64, strings.Clone)
		for _, m := range metrics {
			if !validName.MatchString(m.Name) || len(m.Name) > 128 || len(m.Unit) > 32 || strings.ContainsAny(m.Unit, "; \n") ||
				math.IsInf(m.Value, 0) || math.IsNaN(m.Value) {
				t.Errorf("got metric %+v", m)
			}
		}
	})
}
