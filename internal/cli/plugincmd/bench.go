package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

const (
	formatBenchstat = "benchstat"
	loadCold        = "load=cold"
)

// bench is one run of `prober plugin bench`.
type bench struct {
	env      *command.Env
	flags    pluginFlags
	caseFlag string // FILE or FILE:NAME of a case
	limit    time.Duration
	timeout  time.Duration
	checks   bool
	count    int
	output   string

	found plugin.Found
	input input
	c     *plugintest.Case // nil for a real target
	cache string           // folder of compiled modules
}

func newBench(env *command.Env) *cobra.Command {
	b := &bench{env: env}
	c := &cobra.Command{
		Use:   "bench NAME|FILE.wasm|DIR [--target HOST:PORT | --case FILE[:NAME]]",
		Short: "Measure how long a plugin takes to load and to probe",
		Long: "Bench measures how long a plugin takes to load, without and with the cache of compiled modules,\n" +
			"and its calls in each isolation: fresh, reset and pooled. It measures pooled for comparison\n" +
			"even without \"stateful: true\" in the manifest, and a program with \"mode: command\" only fresh.\n\n" +
			"The plugin probes a real target, or the simulated peers of a test case. The default is the first\n" +
			"case in NAME_test.yaml beside the module that wants a success. With a real target, the times\n" +
			"include the wait for it.\n\n" +
			"DEADLINE is how prober stops a guest that computes for too long: \"fuel\" counts its instructions, and\n" +
			"FUEL is the number of units of a call, about one per instruction. A module that cannot be\n" +
			"instrumented for fuel has \"checks\".",
		Example: "  prober plugin bench demo\n" +
			"  prober plugin bench demo --case 'demo/demo_test.yaml:server answers a request'\n" +
			"  prober plugin bench demo --target 127.0.0.1:25 --count 6 -o benchstat > new.txt",
		Args: command.Arguments("NAME|FILE.wasm|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			return b.run(ctx, args[0])
		},
	}
	b.flags.add(c)
	c.Flags().StringVar(&b.caseFlag, "case", "", "test case whose peers the plugin probes, as FILE or FILE:NAME")
	c.Flags().DurationVar(&b.limit, "time", time.Second, "duration of each measurement")
	c.Flags().DurationVar(&b.timeout, "timeout", time.Second, "timeout of each call")
	c.Flags().BoolVar(&b.checks, "checks", false, "end guests by checks, to compare them with fuel")
	c.Flags().IntVar(&b.count, "count", 1, "number of times that everything is measured")
	command.OutputFlag(c, &b.output, command.Table, formatBenchstat)
	return c
}

// run measures and prints.
func (b *bench) run(ctx context.Context, name string) error {
	if b.limit <= 0 || b.timeout <= 0 || b.count < 1 {
		return command.Usage("", "--time, --timeout and --count: must be above 0")
	}
	if err := b.prepare(ctx, name); err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "prober-bench-")
	if err != nil {
		return command.Failed(err)
	}
	defer os.RemoveAll(cache)
	b.cache = cache
	all, err := b.measureAll(ctx)
	switch {
	case ctx.Err() != nil:
		err = command.Failed(context.Cause(ctx))
	case err != nil:
		err = command.Failed(fmt.Errorf("plugin %q: %w", b.found.Manifest.Name, err))
	}
	if len(all) == 0 {
		return err
	}
	return cmp.Or(err, printSamples(b.env.Stdout, b.output, b.found.Manifest.Name, all))
}

// prepare finds the plugin, and its target or test case.
func (b *bench) prepare(ctx context.Context, name string) (err error) {
	if b.found, err = findPlugin(name, b.flags.dirs); err != nil {
		return err
	}
	warnManifest(b.env, b.found)
	if b.input, err = b.flags.read(ctx, b.env); err != nil {
		return err
	}
	if r := b.found.Manifest.Runtime; r == plugin.Process || r == plugin.Nagios {
		return command.Usage("its module, where it builds as one, can be measured", "plugin %q is a program: only modules can be measured", b.found.Manifest.Name)
	}
	switch {
	case b.flags.target != "" && b.caseFlag != "":
		return command.Usage("omit one of the two", "--target and --case: only one of the two can be given")
	case b.flags.target != "":
		return b.input.check(b.found.Manifest)
	case string(b.input.config) != "{}" || len(b.input.grants) > 0:
		return command.Usage("--target names a server to ask; a case has its own config and grants", "--config and --grant: there is no --target")
	}
	file, name, err := b.caseFile()
	if err != nil {
		return err
	}
	b.c, err = findCase(file, name)
	return err
}

// caseFile splits --case. If it is not set, caseFile returns the test file beside the module.
func (b *bench) caseFile() (file, name string, err error) {
	if b.caseFlag == "" {
		file = filepath.Join(filepath.Dir(b.found.Path), b.found.Manifest.Name+plugintest.Suffix)
		if _, err := os.Stat(file); err != nil {
			return "", "", command.Usage("--target names a server, --case a test case", "no target and no test case: %w", err)
		}
		return file, "", nil
	}
	if end := strings.Index(b.caseFlag, plugintest.Suffix+":"); end >= 0 {
		end += len(plugintest.Suffix)
		return b.caseFlag[:end], b.caseFlag[end+1:], nil
	}
	return b.caseFlag, "", nil
}

// findCase returns the case of a file with a name, or the first that wants a success if name is "".
func findCase(file, name string) (*plugintest.Case, error) {
	f, err := plugintest.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, command.Usage("--case takes FILE or FILE:NAME, where FILE ends in "+plugintest.Suffix, "%w", err)
	}
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	var names []string
	for i := range f.Cases {
		c := &f.Cases[i]
		if c.Name == name || name == "" && c.Want.Result == probe.Success.String() {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if name == "" {
		return nil, command.Usage("--case FILE:NAME names another", "%s: no case expects a success", file)
	}
	return nil, command.Usage("known: "+strings.Join(names, ", "), "%s: no case is named %q", file, name)
}

// measureAll measures everything --count times. After an error it returns the previous samples, too.
func (b *bench) measureAll(ctx context.Context) (all []sample, _ error) {
	isolations := []plugin.Isolation{plugin.Fresh, plugin.Reset, plugin.Pooled}
	if b.found.Manifest.Mode == plugin.Command {
		isolations = isolations[:1] // a program ends with each call
	}
	for range b.count {
		for _, kind := range []string{loadCold, "load=cached"} {
			s, err := b.measure(ctx, kind, func() (time.Duration, error) { return b.load(ctx, kind == loadCold) })
			if err != nil {
				return all, err
			}
			all = append(all, s)
		}
		for _, isolation := range isolations {
			s, err := b.measureCalls(ctx, isolation)
			if err != nil {
				return all, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// measure calls do for --time, and at least once. It prints kind to stderr first, since this may
// take long.
func (b *bench) measure(ctx context.Context, kind string, do func() (time.Duration, error)) (sample, error) {
	fmt.Fprintf(b.env.Stderr, "prober: measuring %s\n", kind)
	s := sample{kind: kind}
	for start := time.Now(); len(s.took) == 0 || time.Since(start) < b.limit; {
		took, err := do()
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return s, err
		}
		s.took = append(s.took, took)
	}
	return s, nil
}

// load loads the plugin once: cold with an empty cache, else from the cache.
func (b *bench) load(ctx context.Context, cold bool) (took time.Duration, err error) {
	if cold {
		if err := errors.Join(os.RemoveAll(b.cache), os.Mkdir(b.cache, 0o700)); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	host, err := wasm.New(wasm.Config{CacheDir: b.cache, Checks: b.checks, Version: b.env.Version})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	manifest := b.manifest(b.found.Manifest.Isolation)
	handler, err := host.Load(ctx, plugin.Found{Module: b.found.Module, Manifest: manifest, Grants: b.grants()})
	if err != nil {
		return 0, err
	}
	took = time.Since(start)
	return took, handler.Close()
}

// manifest returns the plugin's manifest with another isolation.
func (b *bench) manifest(isolation plugin.Isolation) *plugin.Manifest {
	m := *b.found.Manifest
	m.Isolation, m.Stateful = isolation, m.Stateful || isolation == plugin.Pooled
	return &m
}

func (b *bench) grants() []plugin.Grant {
	if b.c != nil {
		return b.c.Grants
	}
	return b.input.grants
}

// measureCalls measures the calls in an isolation, after a first call that is not measured.
func (b *bench) measureCalls(ctx context.Context, isolation plugin.Isolation) (sample, error) {
	callee, err := b.callee(ctx, isolation)
	if err != nil {
		return sample{}, err
	}
	defer callee.close()
	out, _, err := callee.call(ctx)
	if err != nil {
		return sample{}, err
	}
	before := callee.fuel()
	s, err := b.measure(ctx, "isolation="+string(isolation), func() (time.Duration, error) {
		_, took, err := callee.call(ctx)
		return took, err
	})
	s.memory, s.result, s.deadline = callee.memory(), out.Result.String(), callee.deadline
	if len(s.took) > 0 {
		s.fuel = (callee.fuel() - before) / uint64(len(s.took))
	}
	return s, err
}
