package report_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/report"
	"github.com/daeace23/prober/bench/internal/scenario"
)

func run(subject, c string, round int, cpu, lag float64) record.Run {
	return record.Run{
		Subject: subject, Round: round, Params: []record.Param{{Name: "c", Value: c}},
		Figures: map[string]record.Number{"cpu-us": record.Number(cpu), "p99-ms": record.Number(lag), "lost": 0},
	}
}

func sample(plots ...scenario.Plot) ([]scenario.Scenario, *record.Record) {
	c16 := []record.Param{{Name: "c", Value: "16"}}
	s := scenario.Scenario{
		Name: "http", Title: "HTTP & more", Text: "One sentence. Another one.", Ratio: "cpu-us", Peer: "kubelet", Limit: "part", Plots: plots,
		Columns: []scenario.Column{{Figure: "cpu-us", Head: "CPU µs"}, {Figure: "p99-ms", Head: "p99 ms"}, {Figure: "none", Head: "absent"}, {Figure: "lost", Head: "zero"}},
		Goals: []scenario.Goal{
			{Text: "half", Figure: "cpu-us", Subject: "prober", Over: "kubelet", Params: c16, AtMost: 0.5},
			{Text: "a third", Figure: "cpu-us", Subject: "prober", Over: "kubelet", Params: c16, AtMost: 0.3},
			{Text: "in time", Figure: "p99-ms", Subject: "kubelet", AtMost: 5},
			{Text: "other", Figure: "cpu-us", Subject: "nobody", AtMost: 5},
			{Text: "no later", Figure: "p99-ms", Subject: "prober", Over: "kubelet", AtMost: 1},
			{Text: "whole", Figure: "cpu-us", Subject: "limit", AtMost: 1000},
			{Text: "in part", Figure: "cpu-us", Subject: "part", AtMost: 1000},
			{Text: "as late", Figure: "p99-ms", Subject: "kubelet", Over: "prober", AtMost: 1},
		},
	}
	return []scenario.Scenario{s, {Name: "absent", Title: "Absent"}}, &record.Record{
		Scenario: "http", Command: "go run -tags k8s136 ./cmd/bench -again -scenario http -rounds 2", Start: time.Unix(1_800_000_000, 0), Seconds: 61,
		Machine: measure.Machine{CPU: "Model <1>", Cores: 2, Kernel: "Linux 6", Go: "go1.26", Commit: "abc"}, OtherCPU: 0.1,
		Runs: []record.Run{
			run("kubelet", "16", 1, 100, math.Inf(1)), run("prober", "16", 1, 42, 1.5),
			run("kubelet", "256", 1, 120, math.Inf(1)), run("prober", "256", 1, 1234567, 2),
			run("kubelet", "16", 2, 120, math.Inf(1)), run("prober", "16", 2, 38, 1.5),
			run("part", "16", 1, 10, 1), {Subject: "part", Round: 2, Params: c16, Error: "refused"},
			{Subject: "limit", Round: 1, Params: c16, Error: "refused\nand more"},
		},
	}
}

func page(t *testing.T, plots ...scenario.Plot) map[string][]byte {
	t.Helper()
	all, r := sample(plots...)
	store := record.Store{Dir: t.TempDir()}
	if err := store.Save(r); err != nil {
		t.Fatal(err)
	}
	files, err := report.Page(all, store)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPage(t *testing.T) {
	text := string(page(t)[""])
	for _, want := range []string{
		"\n- Model <1>, 2 processors, Linux 6, go1.26, at abc (2027-01-15)\n",
		"| [http](#http--more) | half | 0.364 | 0.091 |",
		"|  | a third | 0.364, **not met** | 0.091 |",
		"| in time | lost, **not met** | 1 |",
		"| other | not measured | 10 |",
		"| no later | 1.5; kubelet: lost | 1; kubelet: lost |",
		"| as late | lost, **not met** | 0.667 |",
		"| whole | **not met**: no round succeeded | 10 |",
		"| in part | 10, **not met**: 1 of 2 rounds failed | 10 |",
		"\n## HTTP & more\nOne sentence.\nAnother one.\n\n`http -rounds 2`, 2027-01-15 08:00, 61 s.\n",
		"Other programs kept 0.10 processors busy",
		"| c | subject | CPU µs | p99 ms | ratio of CPU µs to kubelet |\n|---|---|--:|--:|--:|\n",
		"| 16 | kubelet | 110 (100–120) | lost | 1 |\n| 16 | prober | 40 (38–42) | 1.5 | 0.364 |\n| 16 | part | 10 | 1 | 0.091 |\n| 16 | limit |  |  |  |\n| 256 | kubelet",
		"| 256 | prober | 1,234,567 | 2 |",
		"\nlimit, c 16, round 1, has no figures: refused\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(text, "Absent") || strings.Contains(text, "absent") {
		t.Error("the page has a scenario or a figure that was not measured")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestCommandIsNamedOnce checks that a section does not repeat its heading.
func TestCommandIsNamedOnce(t *testing.T) {
	all, r := sample()
	all[0].Title, r.Command = "HTTP", "go run -tags k8s136 ./cmd/bench -again -scenario http"
	store := record.Store{Dir: t.TempDir()}
	if err := store.Save(r); err != nil {
		t.Fatal(err)
	}
	files, err := report.Page(all, store)
	if text := string(files[""]); err != nil || !strings.Contains(text, "\n\n2027-01-15 08:00, 61 s.\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestColumnOfEachSubject(t *testing.T) {
	all, r := sample()
	all[0].BySubject, all[0].Columns = true, all[0].Columns[:1]
	store := record.Store{Dir: t.TempDir()}
	if err := store.Save(r); err != nil {
		t.Fatal(err)
	}
	files, err := report.Page(all, store)
	want := "| c | kubelet, CPU µs | prober, CPU µs | part, CPU µs | limit, CPU µs |\n|---|--:|--:|--:|--:|\n| 16 | 110 (100–120) | 40 (38–42) | 10 |  |\n| 256 | 120 | 1,234,567 |  |  |\n"
	if text := string(files[""]); err != nil || !strings.Contains(text, want) {
		t.Errorf("%v, no %q in\n%s", err, want, text)
	}
}

// TestCloseValuesAreOmitted checks the spread from which the least and the highest value are shown.
func TestCloseValuesAreOmitted(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{100, 100, 104}, "| 100 |"},
		{[]float64{96, 100, 104}, "| 100 |"},
		{[]float64{95, 100, 101}, "| 100 (95–101) |"},
		{[]float64{100, 100, 105}, "| 100 (100–105) |"},
		{[]float64{100, math.Inf(1), math.Inf(1)}, "| lost (100–lost) |"},
	} {
		t.Run(fmt.Sprint(c.values), func(t *testing.T) {
			all, r := sample()
			r.Runs = nil
			for i, v := range c.values {
				r.Runs = append(r.Runs, run("prober", "16", i+1, v, 1))
			}
			store := record.Store{Dir: t.TempDir()}
			if err := store.Save(r); err != nil {
				t.Fatal(err)
			}
			files, err := report.Page(all, store)
			if text := string(files[""]); err != nil || !strings.Contains(text, "| 16 | prober "+c.want) {
				t.Errorf("%v, no %q in\n%s", err, c.want, text)
			}
		})
	}
}

// TestVerdictsNameTheirDoubts checks verdicts of measurements with other flags and on other machines than the
// goal is for.
func TestVerdictsNameTheirDoubts(t *testing.T) {
	all, r := sample()
	all[0].Rounds, all[0].Seconds = 3, 5
	for _, c := range []struct {
		flags string
		other record.Number
		want  string
	}{
		{"", 0, ""},
		{" -rounds 3 -seconds 5", 0, ""},
		{" -rounds 4", 0.1, ""},
		{"", 0.5, ", busy machine: met"},
		{" -rounds 2", 0, ", quick look: met"},
		{" -seconds 4", 0, ", quick look: met"},
		{" -probes 1000", 0.5, ", quick look: busy machine: met"},
	} {
		t.Run(fmt.Sprintf("%s other=%v", c.flags, c.other), func(t *testing.T) {
			r.Command, r.OtherCPU = "go run ./cmd/bench"+c.flags, c.other
			store := record.Store{Dir: t.TempDir()}
			if err := store.Save(r); err != nil {
				t.Fatal(err)
			}
			files, err := report.Page(all, store)
			if text := string(files[""]); err != nil || !strings.Contains(text, "half | 0.364"+c.want+" | 0.091 |") {
				t.Errorf("%v, no %q in\n%s", err, c.want, text)
			}
		})
	}
}

func TestChartsAreXML(t *testing.T) {
	for name, plot := range map[string]scenario.Plot{
		"bars":  {Title: "CPU < limit", Figure: "cpu-us"},
		"lines": {Title: "CPU < limit", Figure: "cpu-us", X: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			files := page(t, plot)
			chart := files["http-cpu-us.svg"]
			texts := 0
			for d := xml.NewDecoder(bytes.NewReader(chart)); ; {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, chart)
				}
				if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
					texts++
				}
			}
			if texts < 5 || strings.Contains(string(chart), "NaN") || strings.Contains(string(chart), "Inf") {
				t.Errorf("%s", chart)
			}
			if !strings.Contains(string(files[""]), "![CPU < limit](performance/http-cpu-us.svg)") {
				t.Error("the page does not show the chart")
			}
		})
	}
}

func TestChartWithoutValues(t *testing.T) {
	if files := page(t, scenario.Plot{Title: "none", Figure: "absent"}); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
}

func TestWrite(t *testing.T) {
	all, r := sample(scenario.Plot{Title: "CPU", Figure: "cpu-us"})
	dir := t.TempDir()
	store := record.Store{Dir: dir}
	if err := store.Save(r); err != nil {
		t.Fatal(err)
	}
	if err := report.Write(filepath.Join(dir, "docs", "performance.md"), all, store); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"performance.md", "performance/http-cpu-us.svg"} {
		if info, err := os.Stat(filepath.Join(dir, "docs", name)); err != nil || info.Size() == 0 {
			t.Error(name, err)
		}
	}
}
