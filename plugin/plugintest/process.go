package plugintest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// Program is a plugin that runs as a process, which is started.
type Program interface {
	probe.Preparer
	Close() error
}

// processVariant is the variant of a plugin that is a process.
const processVariant = "process"

// processSession is what the runs of one file share with a plugin that is a process.
type processSession struct {
	*session
	program Program
	guide   *guide
}

// runProcess is [Run] for the process whose executable is at path.
func runProcess(ctx context.Context, f *File, path string, cfg Config) (*Report, error) {
	found, err := readProgram(path, cfg.Folders)
	if err != nil {
		return nil, fmt.Errorf("%s: plugin: %w", f.Path, err)
	}
	if cfg.Process == nil {
		return nil, fmt.Errorf("%s: plugin %s is a program, which this test does not start", f.Path, path)
	}
	open := *found.Manifest
	open.Config = &schema.Schema{} // it is applied here, so that one process serves all
	s := &processSession{session: newSession(cfg, nil, found.Manifest, f)}
	found.Manifest = &open
	if s.guide, err = newGuide(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	defer s.guide.close()
	if s.program, err = cfg.Process(ctx, found, s.guide.env()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	report := &Report{File: f.Path, text: f.text, Plugin: open.Name + " " + open.Version, Results: s.cases(ctx)}
	if !cfg.CasesOnly && ctx.Err() == nil {
		report.Results = append(report.Results, s.conformance(ctx)...)
	}
	return report, errors.Join(ctx.Err(), s.program.Close())
}

// isProgram reports whether a plugin at path is no module.
func isProgram(path string) bool {
	return plugin.IsProcess(filepath.Base(path)) || filepath.Ext(path) == ".yaml"
}

// readProgram reads a process, or the manifest of a check of Nagios, whose command may be
// beside it or in one of folders.
func readProgram(path string, folders []string) (plugin.Found, error) {
	if filepath.Ext(path) != ".yaml" {
		return plugin.ReadProcess(path)
	}
	found, err := plugin.ReadCheck(path)
	found.Folders = append([]string{filepath.Dir(path)}, folders...)
	found.Env = []string{"*"} // the manifest is that of whoever runs the test
	return found, err
}

// cases runs the cases of the file.
func (s *processSession) cases(ctx context.Context) (results []Result) {
	for i := range s.file.Cases {
		c := &s.file.Cases[i]
		if s.cfg.Run != nil && !s.cfg.Run.MatchString(c.Name) {
			continue
		}
		r := Result{Name: c.Name, Variant: processVariant, File: s.file.Path, Line: c.Line}
		if r.LeftOut = cmp.Or(s.needsMemory(c), c.needsGuest(s.guide.asked())); r.LeftOut != "" {
			results = append(results, r)
			continue
		}
		results = append(results, inGoodTime(func() Result {
			judged, start := r, time.Now()
			judged.got = s.attempt(ctx, c, i)
			judged.Real, judged.Virtual = time.Since(start), judged.got.virtual
			judged.c, judged.Note = c.inRealTime(judged.got)
			judged.judge()
			return judged
		}))
	}
	return results
}

// needsMemory says what a case needs that a command, which ends with each attempt, does not
// have; or "".
func (s *processSession) needsMemory(c *Case) string {
	if s.manifest.Runtime == plugin.Nagios && (len(c.KV) > 0 || len(c.Want.KV) > 0) {
		return "a command keeps nothing from attempt to attempt"
	}
	return ""
}

// attempt makes one attempt at a case, in real time.
func (s *processSession) attempt(ctx context.Context, c *Case, index int) *answer {
	l, err := newLoopback(c, index, s.guide.ca)
	if err != nil {
		return &answer{faults: []string{err.Error()}}
	}
	defer l.close()
	got := s.ask(ctx, l, c)
	l.end()
	if got.hung() {
		got.peers = l.net.states()
	}
	if !got.config {
		got.faults = append(got.faults, l.net.ended()...)
	}
	return got
}

// ask makes an attempt against what listens.
func (s *processSession) ask(ctx context.Context, l *loopback, c *Case) *answer {
	s.guide.begin(l)
	defer s.guide.end()
	config, err := s.manifest.Config.Apply(l.rewritten(c.ConfigJSON()))
	if err != nil {
		return &answer{err: err, config: true}
	}
	asked := *c
	asked.Target = l.target
	handler, err := s.program.Prepare(config, asked.Target)
	if err != nil {
		return &answer{err: l.spelt(err), config: !broken(err)}
	}
	got := &answer{}
	keeper, _ := handler.(wasm.Keeper)
	if keeper != nil {
		keeper.Keep(c.KV)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out, err := handler.Probe(ctx, got.request(&asked))
	got.virtual = time.Since(start)
	out.Output = l.replaced(out.Output)
	got.out, got.err = out, l.spelt(err)
	if keeper != nil {
		got.kept = keeper.Kept()
	}
	return got
}

// broken reports whether an error is one of a process that does not work.
func broken(err error) bool {
	reason := probe.ReasonOf(err)
	return reason == probe.ReasonTrap || reason == probe.ReasonProtocol || reason == probe.ReasonInstantiate
}

// conformance runs the checks that a process has to pass.
func (s *processSession) conformance(ctx context.Context) (results []Result) {
	for _, check := range []struct {
		name    string
		run     func(context.Context) []string
		leftOut string
	}{
		{"a bad config gives a message and no crash", s.badConfigs, ""},
		{"the deadline is obeyed when the target is a black hole", s.blackHoles, ""},
		{"reset and fresh agree", nil, "a process has no isolation"},
		{"nothing beyond its manifest is asked for", nil, "a process asks for nothing"},
		{"no growth over 10,000 calls", nil, "the memory of a process is its own"},
	} {
		r := Result{Name: "conformance: " + check.name, Variant: processVariant, File: s.file.Path, LeftOut: check.leftOut}
		if s.cfg.Run != nil && !s.cfg.Run.MatchString(r.Name) {
			continue
		}
		if check.run != nil {
			r = inGoodTime(func() Result {
				checked, start := r, time.Now()
				checked.Failures = check.run(ctx)
				checked.Real = time.Since(start)
				return checked
			})
		}
		results = append(results, r)
	}
	return results
}

// badConfigs asks the process with configs that the schema would keep from it.
func (s *processSession) badConfigs(ctx context.Context) (failures []string) {
	own := s.manifest
	open := *own
	open.Config = &schema.Schema{}
	strange := s.strangeConfigs()
	s.manifest = &open
	defer func() { s.manifest = own }()
	for i, config := range strange {
		c := s.typical().everywhere(Refuse)
		c.Config = config
		switch got := s.attempt(ctx, c, i); {
		case got.err == nil:
		case broken(got.err):
			failures = append(failures, fmt.Sprintf("config %s: %v", config, got.err))
		case silent.MatchString(got.message()):
			failures = append(failures, fmt.Sprintf("config %s: refused without a message", config))
		}
	}
	return failures
}

// blackHoles lets the process wait for a target that never answers. That the attempt ends
// is the host's work; that the connection does is the plugin's.
func (s *processSession) blackHoles(ctx context.Context) (failures []string) {
	for i, b := range []Behaviour{Timeout, HalfOpen} {
		c := s.typical().everywhere(b)
		l, err := newLoopback(c, i, s.guide.ca)
		if err != nil {
			return []string{err.Error()}
		}
		got := s.ask(ctx, l, c)
		ended := l.end()
		l.close()
		met := l.net.met()
		switch {
		case got.virtual > c.Timeout+slack:
			failures = append(failures, fmt.Sprintf("%s: ends after %v, the timeout is %v", b, got.virtual, c.Timeout))
		case !ended:
			failures = append(failures, fmt.Sprintf("%s: still holds its connection %v after the deadline", b, slack))
		case met && (got.err != nil || got.out.Result == probe.Success):
			failures = append(failures, fmt.Sprintf("%s: answers %s (%s); want a failure", b, got.result(), got.message()))
		case broken(got.err):
			failures = append(failures, fmt.Sprintf("%s: %s (%s)", b, got.result(), got.message()))
		}
	}
	return failures
}

// note is what a report says beside a result.
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
