package plugintest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/loopback"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// Program is a plugin that runs as a process.
type Program interface {
	probe.Preparer
	Close() error
}

// processVariant is the variant of a plugin that is a process.
const processVariant = "process"

// processRun runs the cases of a file with a process.
type processRun struct {
	run
	program Program
	guide   *loopback.Guide
}

// quick is the longest duration of a failure that does not depend on time.
const quick = 100 * time.Millisecond

// maxRuns is the maximum number of runs of a case or check that fails after more than quick. It
// runs in real time, so it may fail only because the machine is slow.
const maxRuns = 3

func repeated(run func() Result) (r Result) {
	for range maxRuns {
		if r = run(); r.OK() || r.Real < quick {
			break
		}
	}
	return r
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
	open.Config = &schema.Schema{} // applied by processRun, so that one process serves all cases
	s := &processRun{run: run{cfg, found.Manifest, f}}
	found.Manifest = &open
	if s.guide, err = loopback.NewGuide(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	defer s.guide.Close()
	if s.program, err = cfg.Process(ctx, found, s.guide.Env()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	report := newReport(f, &open)
	report.Results = s.cases(ctx)
	if !cfg.CasesOnly && ctx.Err() == nil {
		report.Results = append(report.Results, s.conformance(ctx)...)
	}
	return report, errors.Join(ctx.Err(), s.program.Close())
}

// isProgram reports whether the plugin at path is not a module.
func isProgram(path string) bool {
	return plugin.IsProcess(filepath.Base(path)) || filepath.Ext(path) == ".yaml"
}

// readProgram finds the process at path, or reads the manifest of a Nagios check there. The command
// of a check may be beside the manifest or in one of folders.
func readProgram(path string, folders []string) (plugin.Found, error) {
	if filepath.Ext(path) != ".yaml" {
		return plugin.ReadProcess(path)
	}
	found, err := plugin.ReadCheck(path)
	found.Folders = append([]string{filepath.Dir(path)}, folders...)
	found.Env = []string{"*"} // the manifest is the user's own
	return found, err
}

// cases runs the cases of the file.
func (s *processRun) cases(ctx context.Context) (results []Result) {
	for i := range s.file.Cases {
		c := &s.file.Cases[i]
		if !s.cfg.selects(c.Name) {
			continue
		}
		r := Result{Name: c.Name, Variant: processVariant, File: s.file.Path, Line: c.Line}
		if r.LeftOut = s.unservable(c); r.LeftOut != "" {
			results = append(results, r)
			continue
		}
		results = append(results, repeated(func() Result {
			result, start := r, time.Now()
			got := s.attempt(ctx, c, i)
			result.Real = time.Since(start)
			wider, note := c.InRealTime(got, loopback.Slack)
			result.Note = note
			result.compare(wider, got)
			return result
		}))
	}
	return results
}

// unservable returns the reason for which the process must skip a case, or "".
func (s *processRun) unservable(c *Case) string {
	if s.manifest.Runtime == plugin.Nagios && (len(c.KV) > 0 || len(c.Want.KV) > 0) {
		return "a command keeps nothing from attempt to attempt"
	}
	if c.HasCommands() && !s.cfg.Commands {
		return noCommands
	}
	if reason := c.NeedsSandbox(); reason != "" {
		return "a process is in no sandbox: " + reason
	}
	return peer.New(c.Setup(), &clock.Real{}, 0).Unservable(s.guide.Asked())
}

// attempt makes one attempt at a case, in real time.
func (s *processRun) attempt(ctx context.Context, c *Case, index int) *testfile.Answer {
	setup := c.Setup()
	setup.Commands = s.cfg.Commands
	l, err := loopback.Listen(setup, uint64(index), s.guide.Authority())
	if err != nil {
		return &testfile.Answer{Faults: []string{err.Error()}}
	}
	defer l.Close()
	got := s.ask(ctx, l, c)
	l.End()
	if got.Hung() {
		got.States = l.Net.States()
	}
	l.Net.Close()
	if !got.BadConfig {
		got.Faults = append(got.Faults, l.Net.Failures()...)
	}
	return got
}

// ask makes an attempt with the peers on l.
func (s *processRun) ask(ctx context.Context, l *loopback.Loopback, c *Case) *testfile.Answer {
	s.guide.SetCurrent(l)
	defer s.guide.SetCurrent(nil)
	config, err := s.manifest.Config.Apply(l.Config(c.ConfigJSON()))
	if err != nil {
		return &testfile.Answer{Err: err, BadConfig: true}
	}
	asked := *c
	asked.Target = l.Target
	handler, err := s.program.Prepare(config, asked.Target)
	if err != nil {
		return &testfile.Answer{Err: l.Error(err), BadConfig: !broken(err)}
	}
	got := &testfile.Answer{}
	keeper, _ := handler.(wasm.Keeper)
	if keeper != nil {
		keeper.Keep(c.KV)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out, err := handler.Probe(ctx, tracedRequest(&asked, got))
	got.Virtual = time.Since(start)
	out.Output = l.Text(out.Output)
	got.Outcome, got.Err = out, l.Error(err)
	if keeper != nil {
		got.Kept = keeper.Kept()
	}
	return got
}

// broken reports whether err means that the process itself failed.
func broken(err error) bool {
	reason := probe.ReasonOf(err)
	return reason == probe.ReasonTrap || reason == probe.ReasonProtocol || reason == probe.ReasonInstantiate
}

// conformance runs the checks that a process must pass.
func (s *processRun) conformance(ctx context.Context) (results []Result) {
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
		{hostileCheck, nil, "a process runs in real time"},
	} {
		r := Result{Name: "conformance: " + check.name, Variant: processVariant, File: s.file.Path, LeftOut: check.leftOut}
		if !s.cfg.selects(r.Name) {
			continue
		}
		if check.run != nil {
			r = repeated(func() Result {
				result, start := r, time.Now()
				result.Failures = check.run(ctx)
				result.Real = time.Since(start)
				return result
			})
		}
		results = append(results, r)
	}
	return results
}

// badConfigs calls the process with configs that its schema refuses.
func (s *processRun) badConfigs(ctx context.Context) (failures []string) {
	own := s.manifest
	open := *own
	open.Config = &schema.Schema{}
	strange := s.strangeConfigs()
	s.manifest = &open
	defer func() { s.manifest = own }()
	for i, config := range strange {
		c := s.typical().Everywhere(peer.Refuse)
		c.Config = config
		switch got := s.attempt(ctx, c, i); {
		case got.Err == nil:
		case broken(got.Err):
			failures = append(failures, fmt.Sprintf("config %s: %v", config, got.Err))
		case silent().MatchString(got.Message()):
			failures = append(failures, fmt.Sprintf("config %s: refused without a message", config))
		}
	}
	return failures
}

// blackHoles makes attempts at peers that never answer. The host ends the attempt; the plugin must
// close its connection.
func (s *processRun) blackHoles(ctx context.Context) (failures []string) {
	for i, b := range []peer.Behaviour{peer.Timeout, peer.HalfOpen} {
		c := s.typical().Everywhere(b)
		l, err := loopback.Listen(c.Setup(), uint64(i), s.guide.Authority())
		if err != nil {
			return []string{err.Error()}
		}
		got := s.ask(ctx, l, c)
		ended := l.End()
		l.Close()
		contacted := l.Net.Contacted()
		switch {
		case got.Virtual > c.Timeout+loopback.Slack:
			failures = append(failures, fmt.Sprintf("%s: ends after %v, the timeout is %v", b, got.Virtual, c.Timeout))
		case !ended:
			failures = append(failures, fmt.Sprintf("%s: still holds its connection %v after the deadline", b, loopback.Slack))
		case contacted && (got.Err != nil || got.Outcome.Result == probe.Success):
			failures = append(failures, fmt.Sprintf("%s: answers %s (%s); must be a failure", b, got.Result(), got.Message()))
		case broken(got.Err):
			failures = append(failures, fmt.Sprintf("%s: %s (%s)", b, got.Result(), got.Message()))
		}
	}
	return failures
}
