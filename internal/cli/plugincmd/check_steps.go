package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// load loads the module as a host does, with everything granted that the manifest requests.
func (k *checking) load(ctx context.Context) (step, error) {
	if !k.isModule() {
		return step{LeftOut: "it is a program"}, nil
	}
	unloadable, err := gate(ctx, k.env, k.found, started)
	if err != nil || unloadable == nil {
		return step{}, err
	}
	var s step
	for _, reason := range joined.Errors(unloadable) {
		s.Failures = append(s.Failures, reason.Error())
	}
	return s, nil
}

// vet runs `prober plugin vet`, if the plugin is in the folder of its project.
func (k *checking) vet(ctx context.Context) (step, error) {
	dir := filepath.Dir(k.found.Path)
	if !exists(filepath.Join(dir, plugin.ManifestFile)) {
		return step{LeftOut: "no plugin.yaml is beside it"}, nil
	}
	findings, err := vetFindings(ctx, k.env, k.found.Path, dir)
	var s step
	for _, f := range findings {
		s.Failures = append(s.Failures, f.String())
	}
	return s, err
}

// cases runs the test cases beside the plugin. Modules run them in all variants.
func (k *checking) cases(ctx context.Context) (step, error) {
	var s step
	if k.sandboxed && !k.isModule() {
		return step{LeftOut: "it is a program, which only prober plugin check runs"}, nil
	}
	paths, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(k.found.Path)), "*"+plugintest.Suffix))
	if err != nil {
		return s, command.Usage("", "%w", err)
	}
	for _, path := range paths {
		f, err := plugintest.Load(path)
		if err != nil {
			s.Failures = append(s.Failures, err.Error())
		} else if samePlugin(f.Plugin, k.found.Path) {
			k.files = append(k.files, f)
		}
	}
	if len(k.files) == 0 && s.ok() {
		return step{LeftOut: "no test cases are beside it"}, nil
	}
	passed, failed := 0, 0
	for _, f := range k.files {
		cfg := k.testConfig()
		cfg.CasesOnly, cfg.Matrix = true, k.isModule()
		ok, bad, err := s.add(plugintest.Run(ctx, f, cfg))
		if err != nil {
			return s, k.cannotTest(err)
		}
		passed, failed = passed+ok, failed+bad
	}
	s.Note = passedOf(passed, failed, "case")
	return s, nil
}

// passedOf returns "4 cases passed", or "3 of 4 cases passed" if some failed.
func passedOf(passed, failed int, what string) string {
	all := command.Count(passed+failed, what) + " passed"
	if failed > 0 {
		return fmt.Sprintf("%d of %s", passed, all)
	}
	return all
}

// conformance runs the conformance checks, of a program those that need no isolation.
func (k *checking) conformance(ctx context.Context) (step, error) {
	var s step
	if k.sandboxed && !k.isModule() {
		return step{LeftOut: "it is a program, which only prober plugin check runs"}, nil
	}
	f := &plugintest.File{Path: k.found.Path, Plugin: k.found.Path}
	if len(k.files) > 0 {
		f = k.files[0]
	}
	cfg := k.testConfig()
	cfg.Run = conformanceNames()
	passed, failed, err := s.add(plugintest.Run(ctx, f, cfg))
	if err != nil {
		return s, k.cannotTest(err)
	}
	s.Note = passedOf(passed, failed, "check")
	return s, nil
}

// conformanceNames matches the names of the conformance checks, and of no case that authors would write.
var conformanceNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^conformance: ") })

func (k *checking) testConfig() plugintest.Config {
	cfg := plugintest.Config{Plugin: k.found.Path, Version: k.env.Version, CacheDir: k.cache, Folders: k.folders, Commands: !k.sandboxed}
	cfg.Process = startProgram(cfg, k.configured)
	return cfg
}

// cannotTest returns the error of a plugin that cannot run at all.
func (k *checking) cannotTest(err error) error {
	if _, ok := errors.AsType[*command.Exit](err); ok {
		return err
	}
	return command.Failed(err)
}

// add adds the failures of a report, one for all variants of a case that fail alike. It returns how many results
// passed and failed.
func (s *step) add(report *plugintest.Report, err error) (passed, failed int, _ error) {
	if err != nil {
		return 0, 0, err
	}
	variants := make(map[string][]string) // by failure
	var failures []string
	for i := range report.Results {
		r := &report.Results[i]
		switch {
		case r.LeftOut != "":
		case r.OK():
			passed++
		default:
			failed++
			text := failureOf(r)
			if variants[text] == nil {
				failures = append(failures, text)
			}
			variants[text] = append(variants[text], r.Variant)
		}
	}
	for _, text := range failures {
		s.Failures = append(s.Failures, strings.Replace(text, variantsMark, strings.Join(variants[text], ", "), 1))
	}
	return passed, failed, nil
}

// variantsMark stands for the variants in a failure, until all are known.
const variantsMark = "\x00"

// failureOf returns the place, the reasons and the diff of a failed result.
func failureOf(r *plugintest.Result) string {
	name := strings.TrimPrefix(strings.ReplaceAll(r.Name, variantsMark, ""), "conformance: ") // the name of the step
	text := fmt.Sprintf("%s (%s): %s", name, variantsMark, strings.Join(r.Failures, "; "))
	if r.Line > 0 {
		text = fmt.Sprintf("%s:%d: %s", r.File, r.Line, text)
	}
	return strings.TrimRight(text+"\n"+r.Diff, "\n")
}

// importsOf returns the imports of a module, nil for a program.
func importsOf(f plugin.Found) map[string][]string {
	if f.Manifest.Runtime == plugin.Process || f.Manifest.Runtime == plugin.Nagios {
		return nil
	}
	imports, err := wasmfile.Imports(f.Module)
	if err != nil {
		return nil // it cannot be loaded
	}
	return imports
}

// starts is the number of starts of which the fastest counts, since other processes may slow one down.
const starts = 3

// budgets measures the module, and compares it with its budgets.
func (k *checking) budgets(ctx context.Context) (s step, _ error) {
	if !k.isModule() {
		return step{LeftOut: "it is a program"}, nil
	}
	allowed := k.found.Manifest.EffectiveBudgets()
	k.spend(&s, plugin.BudgetModule, "bytes", float64(len(k.found.Module)), float64(allowed.Module))
	memory, fuel, cases, err := k.measureCases(ctx)
	if err != nil {
		return s, k.cannotTest(err)
	}
	if cases > 0 {
		k.spend(&s, plugin.BudgetMemory, "bytes", float64(memory), float64(allowed.Memory))
	}
	if fuel > 0 {
		k.spend(&s, plugin.BudgetFuel, "units", float64(fuel), float64(allowed.Fuel))
	}
	start, err := k.measureStart(ctx)
	if err != nil {
		return s, k.cannotTest(err)
	}
	k.spend(&s, plugin.BudgetStart, "seconds", start.Seconds(), allowed.Start.Seconds())
	if cases == 0 {
		s.Note = "memory and fuel need a test case"
	}
	return s, nil
}

// spend adds a budget to the report, and a failure if it is exceeded.
func (k *checking) spend(s *step, name plugin.BudgetName, unit string, used, allowed float64) {
	b := budget{Name: string(name), Unit: unit, Used: used, Allowed: allowed}
	k.report.Budgets = append(k.report.Budgets, b)
	if used > allowed {
		s.Failures = append(s.Failures, b.String())
	}
}

// measureCases runs each case once that wants a verdict of the plugin. It returns the largest memory and fuel of a
// case, and the number of cases.
func (k *checking) measureCases(ctx context.Context) (memory, fuel uint64, cases int, _ error) {
	for _, f := range k.files {
		for i := range f.Cases {
			c := &f.Cases[i]
			if strings.HasPrefix(c.Want.Result, "error") || c.HasCommands() {
				continue
			}
			b, err := plugintest.NewBench(ctx, c, k.found.Module, k.found.Manifest, plugintest.Config{CacheDir: k.cache, Version: k.env.Version})
			if err != nil {
				return memory, fuel, cases, err
			}
			if _, _, err := b.Call(ctx); err == nil {
				memory, fuel, cases = max(memory, b.Memory()), max(fuel, b.Fuel()), cases+1
			}
			b.Close()
		}
	}
	return memory, fuel, cases, ctx.Err()
}

// measureStart returns the time to load the compiled module, with a first instance.
func (k *checking) measureStart(ctx context.Context) (best time.Duration, err error) {
	f := k.found
	if f.Grants, err = plugin.ParseGrants(plugin.WidestGrants()); err != nil {
		return 0, err
	}
	for i := range starts + 1 { // the first one may compile
		took, err := timeLoad(ctx, f, wasm.Config{CacheDir: k.cache, Version: k.env.Version})
		if err != nil {
			return 0, err
		}
		if i == 1 || i > 1 && took < best {
			best = took
		}
	}
	return best, nil
}

// timeLoad loads a plugin, and returns how long that took.
func timeLoad(ctx context.Context, f plugin.Found, cfg wasm.Config) (took time.Duration, err error) {
	start := time.Now()
	host, err := wasm.New(cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	handler, err := host.Load(ctx, f)
	if err != nil {
		return 0, err
	}
	took = time.Since(start)
	return took, handler.Close()
}
