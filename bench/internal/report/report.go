// Package report writes docs/performance.md and its charts from records.
package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/scenario"
)

// repeat is the command that repeats a measurement, without the scenario's name and other flags.
const repeat = "go run -tags k8s136 ./cmd/bench -again -scenario "

// charts is the folder of the charts, next to the page.
const charts = "performance"

// Write writes the page and its charts from all existing records.
func Write(page string, all []scenario.Scenario, store record.Store) error {
	files, err := Page(all, store)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(filepath.Dir(page), charts, name)
		if name == "" {
			path = page
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// section is a measured scenario.
type section struct {
	scenario.Scenario
	*record.Record
}

// Page returns the page and its charts by name. The name of the page is "".
func Page(all []scenario.Scenario, store record.Store) (map[string][]byte, error) {
	var sections []section
	for _, s := range all {
		r, err := store.Load(s.Name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			sections = append(sections, section{s, r})
		}
	}
	files := make(map[string][]byte)
	var b bytes.Buffer
	b.WriteString(head)
	writeMachines(&b, sections)
	writeGoals(&b, sections)
	for _, s := range sections {
		s.write(&b)
		for _, plot := range s.Plots {
			if chart := s.chart(plot); chart != nil {
				name := s.Name + "-" + plot.Figure + ".svg"
				files[name] = chart
				fmt.Fprintf(&b, "\n![%s](%s/%s)\n", plot.Title, charts, name)
			}
		}
	}
	files[""] = b.Bytes()
	return files, nil
}

const head = `---
title: Performance
weight: 110
description: What prober takes beside the code of the kubelet, with goals, limits and commands.
---
# Performance

<!-- Written by ` + "`make bench-peers` and `make bench-scale`" + ` from bench/records. Do not edit. -->

What prober takes beside the kubelet's code of v1.36.3, each measurement in one run on one machine.
Absolute times differ between machines and days; compare the ratios of one run.
The limit is what the kernel, a protocol or a bare schedule takes for the same work.

` + "`" + repeat + "NAME`" + ` in the folder bench repeats a measurement, and replaces its record in bench/records.
A section has NAME, if it is not its heading, with the begin and the length of the measurement.

- A figure is the median of the rounds, with the least and the highest in parentheses if either differs by 5 % or more. A column of zeros is left out, such as "lost".
- CPU is user and system time of the probing process, by getrusage; servers run in another process.
- Memory is resident memory (smaps_rollup) above the same process before it had probes; "resting" after a forced collection.
- An attempt of HTTP, TCP, gRPC and HTTPS makes a fresh connection to one of 200 addresses of loopback, c at a time, with its deadline. The subjects alternate in one process. Goals of allocations add 4 of the context.
- Managers alternate, each in a process of its own, with metrics and without a history. A pod has two started containers with probes of all three kinds, so startup probes make no attempts. The commands of exec probes do nothing. "prober group" is core/group, without Kubernetes: a task for each container. Its handler, and each of ` + "`million`" + `, does nothing.
- Lag is from the due time of an attempt to its begin; the most punctual attempt of a probe counts as punctual. An attempt that has not begun 2 s after the end is lost. "By its schedule" is the bucket of prober_schedule_lag_seconds. Goals for lag and jitter include the window of 10 ms.

Not measured: cloudprober, whose module could not be fetched, and the exec of a container runtime.
` + "`-peer cloudprober=PATH` and `-peer blackbox_exporter=PATH`" + ` add these programs to the scenario targets.
Elsewhere: [the status page with 10,000 probes](performance/page.md), and [` + "`prober node`" + ` beside the kubelet](performance/kubernetes.md).
`

// writeMachines writes each machine with the commits and dates of its measurements.
func writeMachines(b *bytes.Buffer, sections []section) {
	var machines []measure.Machine // without commits
	commits := make(map[measure.Machine][]string)
	for _, s := range sections {
		m := s.Machine
		m.Commit = ""
		if !slices.Contains(machines, m) {
			machines = append(machines, m)
		}
		commit := fmt.Sprintf("%s (%s)", s.Machine.Commit, s.Start.UTC().Format("2006-01-02"))
		if !slices.Contains(commits[m], commit) {
			commits[m] = append(commits[m], commit)
		}
	}
	for _, m := range machines {
		fmt.Fprintf(b, "\n- %s, %d processors, %s, %s, at %s", m.CPU, m.Cores, m.Kernel, m.Go, strings.Join(commits[m], ", "))
	}
	b.WriteString("\n")
}

func writeGoals(b *bytes.Buffer, sections []section) {
	b.WriteString("\n## Goals\n\nA goal is met unless its row says otherwise.\n\n| NAME | goal | measured | limit |\n|---|---|---|---|\n")
	for _, s := range sections {
		name := fmt.Sprintf("[%s](#%s)", s.Name, anchor(s.Title))
		for _, g := range s.Goals {
			measured, verdict := s.judge(g)
			if verdict != "met" {
				measured = strings.TrimPrefix(measured+", "+verdict, ", ")
			}
			_, limit := s.value(g, s.Limit)
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, g.Text, measured, limit)
			name = ""
		}
	}
}

// judge returns the measured value for a goal, and whether the goal is met.
func (s *section) judge(g scenario.Goal) (measured, verdict string) {
	value, measured := s.value(g, g.Subject)
	failed, of := s.failed(g.Subject, g.Params), s.summary(g.Figure, g.Subject, g.Params)
	switch {
	case failed > 0 && of.N == 0:
		return "", "**not met**: no round succeeded"
	case failed > 0:
		return measured, fmt.Sprintf("**not met**: %d of %d rounds failed", failed, failed+of.N)
	case measured == "":
		return "", "not measured"
	}
	verdict = "met"
	if value > g.AtMost {
		verdict = "**not met**"
	}
	if s.OtherCPU >= busy {
		verdict = "busy machine: " + verdict
	}
	if s.quick() {
		verdict = "quick look: " + verdict
	}
	return measured, verdict
}

// value returns the value of a subject for a goal, and its text; "" if it was not measured.
func (s *section) value(g scenario.Goal, subject string) (value float64, shown string) {
	of := s.summary(g.Figure, subject, g.Params)
	value = of.Median
	if g.Over != "" && of.N > 0 {
		over := s.summary(g.Figure, g.Over, g.Params)
		switch {
		case over.N == 0:
			return 0, ""
		case math.IsInf(value, 1): // for any value of the other subject
		case math.IsInf(over.Median, 1):
			return 0, number(value) + "; " + g.Over + ": lost"
		default:
			value = measure.Ratio(of, over)
		}
	}
	if of.N == 0 || math.IsNaN(value) {
		return 0, ""
	}
	return value, number(value)
}

// busy is a number of processors. If other programs use more, a verdict is doubtful.
const busy = 0.2

// quick reports whether the section was measured with fewer probes, rounds or seconds than the scenario has.
func (s *section) quick() bool {
	words := strings.Fields(s.Command)
	less := func(flag string, full int) bool {
		i := slices.Index(words, flag)
		if i < 0 || i+1 == len(words) {
			return false
		}
		n, err := strconv.Atoi(words[i+1])
		return err != nil || n < full
	}
	return less("-probes", math.MaxInt) || less("-rounds", s.Rounds) || less("-seconds", s.Scenario.Seconds)
}

// failed returns the number of runs of a subject without figures. Nil params match all loads.
func (s *section) failed(subject string, params []record.Param) (n int) {
	for _, r := range s.Runs {
		if r.Error != "" && r.Subject == subject && (params == nil || slices.Equal(r.Params, params)) {
			n++
		}
	}
	return n
}

// summary summarizes a figure of a subject. Nil params match all loads.
func (s *section) summary(figure, subject string, params []record.Param) measure.Summary {
	return measure.Summarize(s.Values(figure, func(r *record.Run) bool {
		return r.Subject == subject && (params == nil || slices.Equal(r.Params, params))
	}))
}

func (s *section) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n", s.Title)
	for _, sentence := range sentences(s.Text) {
		fmt.Fprintf(b, "%s\n", sentence)
	}
	b.WriteString(s.circumstances())
	s.table(b)
	if s.missed() {
		b.WriteString("\n" + strings.Join(sentences(s.Why), "\n") + "\n")
	}
	for _, r := range s.Runs {
		if r.Error != "" {
			fmt.Fprintf(b, "\n%s, round %d, has no figures: %s\n", label(&r), r.Round, firstLine(r.Error))
		}
	}
}

// missed reports whether a goal is not met and the scenario has a reason for that.
func (s *section) missed() bool {
	return s.Why != "" && slices.ContainsFunc(s.Goals, func(g scenario.Goal) bool {
		_, verdict := s.judge(g)
		return strings.Contains(verdict, "not met")
	})
}

// circumstances describes how and when the section was measured, and the other load of the machine.
func (s *section) circumstances() string {
	name := "`" + strings.TrimPrefix(s.Command, repeat) + "`, "
	if strings.EqualFold(s.Command, repeat+s.Title) {
		name = ""
	}
	text := fmt.Sprintf("\n%s%s, %.0f s.", name, s.Start.UTC().Format("2006-01-02 15:04"), s.Seconds())
	if s.OtherCPU >= 0.05 {
		text += fmt.Sprintf("\nOther programs kept %.2f processors busy meanwhile.", float64(s.OtherCPU))
	}
	if s.quick() {
		text += "\n**A quick look**: with fewer probes, rounds or seconds than the scenario has."
	}
	return text + "\n"
}

// Seconds returns how long the measurement took.
func (s *section) Seconds() float64 { return s.Record.Seconds }

func sentences(text string) []string {
	return strings.Split(strings.ReplaceAll(strings.TrimSpace(text), ". ", ".\n"), "\n")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// anchor returns the URL fragment of a heading on GitHub.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(title))
}
