package plugintest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Result is the result of one case, or of one conformance check.
type Result struct {
	Name     string
	Variant  string // "compiler/reset", or "process"
	File     string
	Line     int           // 0 for a conformance check
	LeftOut  string        // reason for which it did not run
	Failures []string      // empty if it passed
	Cases    []string      // items of cases, in YAML, that reproduce the failures of a conformance check
	Note     string        // remark, such as the number of calls of a conformance check
	Diff     string        // diff of the wanted and the actual answer
	Trace    []string      // trace of the guest, if the case failed
	Peers    []string      // states of the peers at the end, if the case failed and hung
	Real     time.Duration // real duration
	Virtual  time.Duration // duration on the guest's clock; for a process, real duration

	c   *Case // nil for a conformance check
	got *testfile.Answer
}

// OK reports whether the case passed.
func (r *Result) OK() bool { return len(r.Failures) == 0 }

// compare compares the answer to a case with the wanted answer, and adds the failures.
func (r *Result) compare(c *Case, got *testfile.Answer) {
	r.c, r.got, r.Virtual = c, got, got.Virtual
	if r.Diff = c.Want.Compare(got); r.Diff != "" {
		r.Failures = append(r.Failures, "the answer differs from the wanted one")
	}
	r.Failures = append(r.Failures, got.Faults...)
	for _, line := range got.Trace {
		if _, text, found := strings.Cut(line, " "+perfdata.Ignored); found {
			r.Note = perfdata.Ignored + text
		}
	}
	if !r.OK() {
		r.Trace, r.Peers = got.Trace, got.States
	}
}

// compareVariants compares the answers to each case with the answer of its first variant. It leaves out cases
// that did not run, and cases with commands, whose durations are real.
func compareVariants(results []Result) {
	first := make(map[string]*Result)
	for i := range results {
		r := &results[i]
		if r.LeftOut != "" || r.c.HasCommands() {
			continue
		}
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

// note returns the remark beside a result in a report.
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

	// Functions are the functions of the plugin, with [Config.Cover]. Those of the SDK and of libraries are
	// left out.
	Functions []Function

	// Sources are the source files of the plugin, with [Config.Cover], if the module has a line table. Those of
	// the SDK and of libraries are left out. NoLines is why there are none.
	Sources []Source
	NoLines string

	Profile *Profile // with [Config.Profile]; nil for a process

	text []byte // contents of File when it was read
}

func newReport(f *File, m *plugin.Manifest) *Report {
	return &Report{File: f.Path, text: f.Text, Plugin: m.Name + " " + m.Version}
}

// OK reports whether everything passed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(c Result) bool { return !c.OK() })
}

// Update replaces the wanted result and message of every failed case by the actual ones, in the test
// file. It changes nothing else of the file, and returns the number of changed values. It cannot
// change values that are not plain scalars on one line; its error names them.
func Update(report *Report) (int, error) {
	var changes []testfile.Change
	for i := range report.Results {
		if r := &report.Results[i]; r.c != nil && !r.OK() {
			changes = append(changes, testfile.Change{Want: r.c.Want, Got: r.got})
		}
	}
	return testfile.Update(report.File, report.text, changes)
}
