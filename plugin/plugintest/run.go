package plugintest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Suffix is the suffix of the names of test files.
const Suffix = testfile.Suffix

// File is a *_test.yaml file: its Path, the path of its Plugin, and its Cases.
type File = testfile.File

// Case is one test case: its Name and Line, its Timeout, the request, the simulated network and the
// wanted answer.
type Case = testfile.Case

// Load reads a test file. Its errors are [plugin.FieldError]s, joined.
func Load(path string) (*File, error) { return testfile.Load(path) }

// Shape returns what [Load] accepts, for schemas.
func Shape() *shape.Shape { return testfile.Shape() }

// Find returns the test files at paths. It searches folders recursively.
func Find(paths []string) ([]string, error) { return testfile.Find(paths) }

// Config configures [Run]. Every field may be left zero.
type Config struct {
	// Plugin is the path of the module or executable to test; "" means the file's plugin.
	Plugin string

	// Process starts a plugin that is a process, with env as its environment. Use [process.Load],
	// or [process.LoadCheck] for the runtime nagios. If it is nil, Run refuses such plugins. It is
	// a field so that tests of modules do not link gRPC.
	//
	// [process.LoadCheck]: https://pkg.go.dev/github.com/daeace23/prober/handlers/process#LoadCheck
	// [process.Load]: https://pkg.go.dev/github.com/daeace23/prober/handlers/process#Load
	Process func(ctx context.Context, found plugin.Found, env []string) (Program, error)

	// Folders are additional folders for the command of a plugin with the runtime nagios. The
	// folder of its plugin.yaml is always allowed.
	Folders []string

	// Run selects the cases and checks whose name it matches. Nil selects all.
	Run *regexp.Regexp

	// Matrix runs each case compiled and interpreted, in every isolation. All answers must be the
	// same.
	Matrix bool

	// Interpreter runs guests without compiling them: slower, but they start faster under the
	// race detector.
	Interpreter bool

	// Checks ends guests by [wasm.DeadlineChecks], for a [Bench] that compares it with fuel.
	Checks bool

	// Cover counts the calls of the guest's functions in the cases, and how often the lines of its source ran.
	// It leaves out the conformance checks, and has no effect on a process.
	Cover bool

	// Profile counts the fuel of the guest's functions in the cases, and leaves out the conformance checks. It
	// has no effect on a process.
	Profile bool

	// Strict fails guests whose result has unknown fields. Otherwise these are ignored. It has no
	// effect on a process.
	Strict bool

	// Commands starts the commands that play peers of cases. Without it, these cases are left out. Set it
	// only for files of the user's own.
	Commands bool

	// CasesOnly leaves out the conformance checks.
	CasesOnly bool

	// CacheDir keeps compiled modules, as [wasm.Config.CacheDir] does.
	CacheDir string

	// PassedDir keeps which checks passed. They are left out until the plugin, their cases or this
	// program change. It must belong to this user alone. If it is "", every check runs.
	PassedDir string

	// Again runs also the checks that PassedDir has.
	Again bool

	// Stuck is how long one call of a guest may run in real time. 0 means 20 s. Once a call has
	// exceeded it, the limit of the others is 2 s at most.
	Stuck time.Duration

	// Patience is how long the check for growth may call the guest. 0 means 5 s.
	Patience time.Duration

	// Version is the version of prober that the host reports to guests.
	Version string
}

const (
	defaultStuck    = 20 * time.Second
	defaultPatience = 5 * time.Second
)

// selects reports whether [Config.Run] selects a case or a check.
func (cfg *Config) selects(name string) bool { return cfg.Run == nil || cfg.Run.MatchString(name) }

// Run runs the cases of a file, then the conformance checks. It returns an error if the plugin
// cannot run at all.
func Run(ctx context.Context, f *File, cfg Config) (*Report, error) {
	path := cmp.Or(cfg.Plugin, f.Plugin)
	if isProgram(path) {
		return runProcess(ctx, f, path, cfg)
	}
	found, err := plugin.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	g := newGuestRun(cfg, found.Module, found.Manifest, f)
	g.text = found.Text
	report := newReport(f, found.Manifest)
	if cfg.Cover || cfg.Profile {
		g.coverage = &wasm.Coverage{CountFuel: cfg.Profile}
		finish := g.count(path)
		defer finish(report)
	}
	for _, v := range g.variants() {
		results, err := g.cases(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, path)
		}
		report.Results = append(report.Results, results...)
	}
	compareVariants(report.Results)
	if !cfg.CasesOnly && g.coverage == nil {
		checks, err := g.conformance(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, path)
		}
		report.Results = append(report.Results, checks...)
	}
	return report, ctx.Err()
}

// noCommands is the reason for which a run leaves out a case that has a process as a peer.
const noCommands = "a peer is a process, and this run starts no commands"

// run has the common fields of guestRun and processRun.
type run struct {
	cfg      Config
	manifest *plugin.Manifest
	file     *File
}

// typical returns a case with a typical request, without peers. It is made from the first case
// whose config the plugin accepts, if there is one.
func (r *run) typical() *Case {
	c := &Case{Name: "typical", Timeout: time.Second, Attempt: 1}
	c.Target.Host, c.Target.Port = "target.internal", 1
	if len(r.manifest.Examples) > 0 {
		c.Config = r.manifest.Examples[0].Config
	}
	for i := range r.file.Cases {
		if own := &r.file.Cases[i]; own.Want.Result != "error(config)" {
			c.Target, c.Config, c.PodIP = own.Target, own.Config, own.PodIP
			break
		}
	}
	return c
}

func newLimit(cfg Config) *clock.Limit { return clock.NewLimit(cmp.Or(cfg.Stuck, defaultStuck)) }
