package plugintest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Formats lists the formats of [Write].
var Formats = []string{"table", "json", "junit", "tap"}

// Write writes reports in one of the [Formats].
func Write(w io.Writer, format string, reports []*Report) error {
	switch format {
	case "table":
		return writeTable(w, reports)
	case "json":
		return writeJSON(w, reports)
	case "junit":
		return writeJUnit(w, reports)
	case "tap":
		return writeTAP(w, reports)
	default:
		return fmt.Errorf("unknown format %q; known: %s", format, strings.Join(Formats, ", "))
	}
}

// details returns the lines about a case that failed.
func (r *Result) details() []string {
	var lines []string
	for _, f := range r.Failures {
		lines = append(lines, strings.Split(strings.TrimSuffix(f, "\n"), "\n")...)
	}
	if r.Diff != "" {
		lines = append(lines, strings.Split(strings.TrimSuffix(r.Diff, "\n"), "\n")...)
	}
	for _, t := range r.Trace {
		lines = append(lines, "guest: "+t)
	}
	for _, p := range r.Peers {
		lines = append(lines, "peer: "+p)
	}
	for i, line := range lines {
		lines[i] = strings.Map(printable, line)
	}
	return lines
}

// printable replaces control characters, which could move the cursor.
func printable(c rune) rune {
	if unicode.IsControl(c) {
		return ' '
	}
	return c
}

// printableName returns the name of the case on one line.
func (r *Result) printableName() string { return strings.Map(printable, r.Name) }

func (r *Result) place() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Line)
}

func writeTable(out io.Writer, reports []*Report) error {
	passed, failed, leftOut := 0, 0, 0
	for _, report := range reports {
		fmt.Fprintf(out, "%s  %s\n", report.Plugin, report.File)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		for i := range report.Results {
			r := &report.Results[i]
			word := "ok"
			switch {
			case r.LeftOut != "":
				word = "-"
				leftOut++
			case !r.OK():
				word = "FAIL"
				failed++
			default:
				passed++
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%v\n", word, r.printableName(), r.Variant, r.note(), r.Real.Round(time.Millisecond))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for i := range report.Results {
			if r := &report.Results[i]; !r.OK() {
				fmt.Fprintf(out, "\n%s: %s (%s)\n    %s\n", r.place(), r.printableName(), r.Variant, strings.Join(r.details(), "\n    "))
				writeCases(out, r)
			}
		}
		if err := report.writeCounts(out); err != nil {
			return err
		}
	}
	end := ""
	if leftOut > 0 {
		end = fmt.Sprintf(", %d left out", leftOut)
	}
	_, err := fmt.Fprintf(out, "%d passed, %d failed%s\n", passed, failed, end)
	return err
}

// writeCounts writes the coverage and the profile of a report, if there are any.
func (r *Report) writeCounts(out io.Writer) error {
	if err := r.writeCoverage(out); err != nil {
		return err
	}
	if err := r.writeLines(out); err != nil || r.Profile == nil {
		return err
	}
	return r.Profile.write(out)
}

// maxShownCase is the size of the longest case that a table shows, in bytes.
const maxShownCase = 16 << 10

// writeCases writes the cases that reproduce a result, in the form in which they can be pasted.
func writeCases(out io.Writer, r *Result) {
	if len(r.Cases) == 0 {
		return
	}
	fmt.Fprintf(out, "\nTo reproduce, append to the cases of %s:\n\n", r.File)
	for _, item := range r.Cases {
		if len(item) > maxShownCase {
			first, _, _ := strings.Cut(item, "\n")
			item = fmt.Sprintf("%s\n# This case has %d KiB: -o json shows it.\n", first, len(item)>>10)
		}
		io.WriteString(out, item)
	}
	fmt.Fprintln(out)
}

type resultDoc struct {
	Name           string   `json:"name"`
	Variant        string   `json:"variant"`
	File           string   `json:"file"`
	Line           int      `json:"line,omitzero"`
	OK             bool     `json:"ok"`
	Failures       []string `json:"failures,omitempty"`
	Cases          []string `json:"cases,omitempty"`
	LeftOut        string   `json:"leftOut,omitzero"`
	Note           string   `json:"note,omitzero"`
	Diff           string   `json:"diff,omitzero"`
	Trace          []string `json:"trace,omitempty"`
	Peers          []string `json:"peers,omitempty"`
	Seconds        float64  `json:"seconds"`
	VirtualSeconds float64  `json:"virtualSeconds"`
}

type reportDoc struct {
	File      string      `json:"file"`
	Plugin    string      `json:"plugin"`
	OK        bool        `json:"ok"`
	Results   []resultDoc `json:"results"`
	Functions []Function  `json:"functions,omitempty"`
	Sources   []sourceDoc `json:"sources,omitempty"`
	NoLines   string      `json:"noLines,omitzero"`
	Profile   *profileDoc `json:"profile,omitempty"`
}

type sourceDoc struct {
	File      string   `json:"file"`
	Lines     int      `json:"lines"`
	Reached   int      `json:"reached"`
	Unreached []string `json:"unreached,omitempty"`
}

type hostDoc struct {
	Name    string  `json:"name"`
	Calls   uint64  `json:"calls"`
	Seconds float64 `json:"seconds"`
}

type profileDoc struct {
	Reason    string         `json:"reason,omitzero"`
	Fuel      uint64         `json:"fuel"`
	Functions []FunctionFuel `json:"functions,omitempty"`
	Host      []hostDoc      `json:"host,omitempty"`
}

// countsOf adds what a report has counted.
func (d *reportDoc) countsOf(r *Report) {
	d.Functions, d.NoLines = r.Functions, r.NoLines
	for i := range r.Sources {
		s := &r.Sources[i]
		d.Sources = append(d.Sources, sourceDoc{s.File, len(s.Lines), s.reached(), s.unreached()})
	}
	if p := r.Profile; p != nil {
		d.Profile = &profileDoc{Reason: p.Reason, Fuel: p.Fuel(), Functions: p.Functions}
		for _, h := range p.Host {
			d.Profile.Host = append(d.Profile.Host, hostDoc{h.Name, h.Calls, h.Waited.Seconds()})
		}
	}
}

func writeJSON(w io.Writer, reports []*Report) error {
	docs := []reportDoc{}
	for _, report := range reports {
		doc := reportDoc{File: report.File, Plugin: report.Plugin, OK: report.OK(), Results: []resultDoc{}}
		doc.countsOf(report)
		for _, r := range report.Results {
			doc.Results = append(doc.Results, resultDoc{
				Name: r.Name, Variant: r.Variant, File: r.File, Line: r.Line, OK: r.OK(), Failures: r.Failures, Cases: r.Cases, LeftOut: r.LeftOut, Note: r.Note,
				Diff: r.Diff, Trace: r.Trace, Peers: r.Peers, Seconds: r.Real.Seconds(), VirtualSeconds: r.Virtual.Seconds(),
			})
		}
		docs = append(docs, doc)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"items": docs})
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	Classname string        `xml:"classname,attr"`
	File      string        `xml:"file,attr"`
	Line      int           `xml:"line,attr,omitempty"`
	Time      string        `xml:"time,attr"`
	Failure   *junitFailure `xml:"failure"`
	Skipped   *junitSkipped `xml:"skipped"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

func writeJUnit(w io.Writer, reports []*Report) error {
	doc := struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}{}
	for _, report := range reports {
		suite := junitSuite{Name: report.Plugin, Tests: len(report.Results)}
		for i := range report.Results {
			r := &report.Results[i]
			c := junitCase{
				Name: r.Name, Classname: report.Plugin + " " + r.Variant, File: r.File, Line: r.Line,
				Time: fmt.Sprintf("%.3f", r.Real.Seconds()),
			}
			if r.LeftOut != "" {
				suite.Skipped++
				c.Skipped = &junitSkipped{Message: r.LeftOut}
			}
			if !r.OK() {
				suite.Failures++
				lines := r.details()
				c.Failure = &junitFailure{Message: lines[0], Text: strings.Join(lines, "\n")}
			}
			suite.Cases = append(suite.Cases, c)
		}
		doc.Suites = append(doc.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func writeTAP(w io.Writer, reports []*Report) error {
	total := 0
	for _, report := range reports {
		total += len(report.Results)
	}
	fmt.Fprintf(w, "TAP version 13\n1..%d\n", total)
	n := 0
	for _, report := range reports {
		for i := range report.Results {
			r := &report.Results[i]
			n++
			word := "ok"
			if !r.OK() {
				word = "not ok"
			}
			name := strings.NewReplacer(`\`, `\\`, "#", `\#`).Replace(r.printableName())
			end := ""
			if r.LeftOut != "" {
				end = " # SKIP " + strings.Map(printable, r.LeftOut)
			}
			fmt.Fprintf(w, "%s %d - %s: %s (%s)%s\n", word, n, report.Plugin, name, r.Variant, end)
			if !r.OK() {
				fmt.Fprintf(w, "  ---\n  at: %s\n  details: |\n    %s\n  ...\n", r.place(), strings.Join(r.details(), "\n    "))
			}
		}
	}
	return nil
}
