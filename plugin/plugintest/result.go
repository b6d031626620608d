package plugintest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Result is the result of one case, or of one conformance check.
type Result struct {
	Name     string
	Variant  string // "compiler/reset", or "process"
	File     string
	Line     int           // 0 for a conformance check
	LeftOut  string        // why it did not run
	Failures []string      // empty when it passed
	Note     string        // of a conformance check: how far it went
	Diff     string        // of what was wanted and what came
	Trace    []string      // what the guest did; of a case that failed
	Peers    []string      // what the peers were doing at its end; of a case that failed and hung
	Real     time.Duration // that it took
	Virtual  time.Duration // that passed for the guest; of a process it is real

	c   *Case // nil for a conformance check
	got *testfile.Answer
}

// OK reports whether the case passed.
func (r *Result) OK() bool { return len(r.Failures) == 0 }

// compare compares the answer to a case with what it wants.
func (r *Result) compare(c *Case, got *testfile.Answer) {
	r.c, r.got, r.Virtual = c, got, got.Virtual
	if r.Diff = c.Want.Compare(got); r.Diff != "" {
		r.Failures = append(r.Failures, "the answer differs from what is wanted")
	}
	r.Failures = append(r.Failures, got.Faults...)
	if !r.OK() {
		r.Trace, r.Peers = got.Trace, got.States
	}
}

// compareVariants compares the answer to each case in all variants with the first.
func compareVariants(results []Result) {
	first := make(map[string]*Result)
	for i := range results {
		r := &results[i]
		f, ok := first[r.Name]
		if !ok {
			first[r.Name] = r
			continue
		}
		if difference := f.got.Difference(r.got); difference != "" {
			r.Failures = append(r.Failures, "the answer differs from that of "+f.Variant)
			r.Diff += difference
		}
	}
}

// note returns what a report says beside a result.
func (r *Result) note() string {
	switch {
	case r.LeftOut != "":
		return r.LeftOut
	case r.Variant == processVariant:
		return strings.TrimSuffix("on loopback; "+r.Note, "; ")
	default:
		return cmp.Or(r.Note, r.Virtual.String()+" virtual")
	}
}

// Report has the results of a file.
type Report struct {
	File    string
	Plugin  string // name and version
	Results []Result

	text []byte // of File, when it was read
}

func newReport(f *File, m *plugin.Manifest) *Report {
	return &Report{File: f.Path, text: f.Text, Plugin: m.Name + " " + m.Version}
}

// OK reports whether everything passed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(c Result) bool { return !c.OK() })
}

// Update writes the result and the message that came into the file, in place of those that were
// wanted, for every case of the report that failed. It changes nothing else of the file and
// returns how many values it changed. Values that are not plain and on one line stay, and the
// error names them.
func Update(report *Report) (int, error) {
	var changes []testfile.Change
	for i := range report.Results {
		if r := &report.Results[i]; r.c != nil && !r.OK() {
			changes = append(changes, testfile.Change{Want: r.c.Want, Got: r.got})
		}
	}
	return testfile.Update(report.File, report.text, changes)
}
