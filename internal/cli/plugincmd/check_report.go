package plugincmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/compat"
	"github.com/daeace23/prober/plugin/oci"
)

// checkReport is the result of `prober plugin check`.
type checkReport struct {
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	Digest     string      `json:"digest"`           // of the module
	Prober     string      `json:"prober,omitempty"` // version of prober that checked
	OK         bool        `json:"ok"`
	Skipped    bool        `json:"skipped,omitempty"` // --skip-check: nothing was checked
	Steps      []step      `json:"steps,omitempty"`
	Budgets    []budget    `json:"budgets,omitempty"`
	Comparison *comparison `json:"comparison,omitempty"`
	Cut        bool        `json:"cut,omitempty"` // parts are left out, since the report was too large

	path string
}

// step is one step of a check.
type step struct {
	Name     string   `json:"name"`
	LeftOut  string   `json:"leftOut,omitempty"` // reason for which it did not run
	Failures []string `json:"failures,omitempty"`
	Note     string   `json:"note,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
}

func (s *step) ok() bool { return len(s.Failures) == 0 }

// budget is one resource: its use, and the most that is allowed.
type budget struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"` // bytes, units or seconds
	Used    float64 `json:"used"`
	Allowed float64 `json:"allowed"`
}

// String returns "NAME USED/ALLOWED".
func (b budget) String() string {
	return fmt.Sprintf("%s %s/%s", b.Name, b.text(b.Used), b.text(b.Allowed))
}

func (b budget) text(v float64) string {
	switch b.Unit {
	case "bytes":
		return byteSize(uint64(v))
	case "seconds":
		return short(time.Duration(v * float64(time.Second))).String()
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// comparison is the result of a comparison with an older version.
type comparison struct {
	compat.Verdict
	Against string          `json:"against"` // where the older version is from
	Changes []compat.Change `json:"changes"`
}

// failed returns the names of the steps that failed.
func (r *checkReport) failed() (names []string) {
	for i := range r.Steps {
		if !r.Steps[i].ok() {
			names = append(names, r.Steps[i].Name)
		}
	}
	return names
}

// exit returns the error of a failed check; nil if it passed. hint may be empty.
func (r *checkReport) exit(hint string) error {
	if r.OK {
		return nil
	}
	return &command.Exit{Code: command.ExitFailed, Hint: hint, Err: fmt.Errorf("plugin %q did not pass: %s", r.Name, strings.Join(r.failed(), ", "))}
}

func (r *checkReport) write(env *command.Env, output string) error {
	if output != command.Table {
		return env.Encode(output, r)
	}
	return r.print(env.Stdout)
}

// print writes the report for people.
func (r *checkReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s %s  %s  %s\n", r.Name, explain.OneLine(r.Version), r.path, r.Digest)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for i := range r.Steps {
		s := &r.Steps[i]
		word, note := "ok", s.Note
		switch {
		case s.LeftOut != "":
			word, note = "-", s.LeftOut
		case !s.ok():
			word = "FAIL"
		}
		if s.Name == "budgets" {
			note = strings.Join(append(r.spent(), note), "  ")
		}
		fmt.Fprintln(w, strings.TrimSuffix(fmt.Sprintf("  %s\t%s\t%s", word, s.Name, explain.OneLine(note)), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range r.Steps {
		for _, f := range r.Steps[i].Failures {
			fmt.Fprintf(out, "%s: %s\n", r.Steps[i].Name, indented(f))
		}
	}
	return r.printChanges(out)
}

// indented returns text with its further lines indented, without control characters.
func indented(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = explain.OneLine(lines[i])
	}
	return strings.Join(lines, "\n    ")
}

func (r *checkReport) spent() (all []string) {
	for _, b := range r.Budgets {
		all = append(all, b.String())
	}
	return all
}

// printChanges writes the changes since the older version.
func (r *checkReport) printChanges(out io.Writer) error {
	c := r.Comparison
	if c == nil || len(c.Changes) == 0 {
		return nil
	}
	fmt.Fprintf(out, "changes from %s to %s: they need a %s version\n", explain.OneLine(c.From), explain.OneLine(c.To), c.Needed)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, change := range c.Changes {
		word := change.Level.String()
		if change.Breaking() {
			word = "breaking"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", word, explain.OneLine(change.Field), explain.OneLine(change.Message))
	}
	return w.Flush()
}

// Bounds of the report in an artifact.
const (
	maxChanges     = 100
	maxReportTexts = 20  // failures of a step
	maxReportText  = 500 // bytes
)

// attached returns the report for an artifact. It has no measured times, so that the same files have the same digest.
func (r *checkReport) attached() ([]byte, error) {
	cut := *r
	cut.Steps, cut.Budgets = nil, nil
	for _, s := range r.Steps {
		s.Seconds, s.Note, s.LeftOut = 0, clip.Marked(s.Note, maxReportText, "…"), clip.Marked(s.LeftOut, maxReportText, "…")
		cut.Cut = cut.Cut || len(s.Failures) > maxReportTexts
		s.Failures = append([]string(nil), s.Failures[:min(len(s.Failures), maxReportTexts)]...)
		for i := range s.Failures {
			s.Failures[i] = clip.Marked(s.Failures[i], maxReportText, "…")
		}
		cut.Steps = append(cut.Steps, s)
	}
	for _, b := range r.Budgets {
		if b.Name != string(plugin.BudgetStart) {
			cut.Budgets = append(cut.Budgets, b)
		}
	}
	if c := r.Comparison; c != nil {
		short := *c
		short.Changes = c.Changes[:min(len(c.Changes), maxChanges)]
		cut.Comparison, cut.Cut = &short, cut.Cut || len(short.Changes) < len(c.Changes)
	}
	data, err := json.Marshal(cut)
	if err == nil && len(data) > oci.MaxReport {
		cut.Steps, cut.Comparison, cut.Cut = nil, nil, true
		data, err = json.Marshal(cut)
	}
	return data, err
}
