package plugincmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/plugintest"
)

func newTest(env *command.Env) *cobra.Command {
	var (
		output, pattern string
		configFile      string
		update, watch   bool
		lcov            string
		cfg             = plugintest.Config{Version: env.Version, Commands: true}
	)
	c := &cobra.Command{
		Use:   "test [PATH]...",
		Short: "Run the test cases of plugins, with simulated peers and clock",
		Long: "Test runs the cases of *_test.yaml files, and the checks that every plugin must pass. PATH is\n" +
			"such a file, or a folder with such files at any depth; the default is the working folder. If\n" +
			"PATH is a module or a plugin.yaml, test runs the files in the same folder that name this plugin.\n" +
			"Network, clock and randomness of the plugin are simulated. Commands that the files name as peers\n" +
			"are started: look at the files of others before you test them.\n\n" +
			"A program runs in real time, and its peers are simulated on the loopback interface. Cases that\n" +
			"need a sandbox are left out. The command of a Nagios check must be beside its plugin.yaml, or in\n" +
			"a folder of nagios.folders in the file of --agent-config.\n\n" +
			"Test also runs variants of each passing case, in which the peers break the protocol. It prints\n" +
			"the cases that reproduce what it finds. A check that passed is left out until the plugin or the\n" +
			"cases change.\n\n" +
			"Exit code 0 all passed, 1 something failed, 64 wrong usage.",
		Example: "  prober plugin test demo\n  prober plugin test --run 'refused|black hole' --matrix demo\n  prober plugin test -o junit plugins > report.xml\n" +
			"  prober plugin test --agent-config /etc/prober/prober.yaml examples/nagios/http",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			cfg.Cover = cfg.Cover || lcov != ""
			if err := setUpTests(&cfg, pattern, configFile); err != nil {
				return err
			}
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			if watch {
				return watchTests(ctx, env, args, cfg, output, lcov)
			}
			return testPlugins(ctx, env, args, cfg, output, lcov, update)
		},
	}
	command.FileFlag(c, &cfg.Plugin, "", "plugin", "", "module or program to test, instead of the one in the test files")
	command.AgentFileFlag(c, &configFile, "the agent's file, prober.yaml, whose nagios.folders contain the allowed commands")
	c.Flags().StringVar(&pattern, "run", "", "only the cases whose name matches this regular expression")
	c.Flags().BoolVar(&cfg.Matrix, "matrix", false, "run each case with the compiler and the interpreter, in the isolations reset and fresh, and compare")
	c.Flags().BoolVar(&cfg.Cover, "cover", false, "show how often the cases call each function of a module, and the lines that they do not reach; leaves out the checks of every plugin")
	command.FileFlag(c, &lcov, "", "cover-profile", "", "write the lines that the cases reach into this file, in the format of lcov; implies --cover")
	c.Flags().BoolVar(&cfg.Profile, "profile", false, "show the fuel that each function of a module takes, and the calls of the host; leaves out the checks of every plugin")
	c.Flags().BoolVar(&cfg.Strict, "strict", false, "fail cases with malformed performance data, and with fields of the result that the contract does not define")
	c.Flags().BoolVar(&cfg.Again, "again", false, "run also the checks that passed before with the same plugin and cases")
	c.Flags().BoolVar(&update, "update", false, "write the actual results and messages into the files")
	c.Flags().BoolVar(&watch, "watch", false, "run again when a plugin, its manifest or its test files change, until Ctrl-C")
	c.MarkFlagsMutuallyExclusive("update", "watch")
	command.OutputFlag(c, &output, plugintest.Formats...)
	return c
}

// setUpTests completes cfg by --run and --agent-config.
func setUpTests(cfg *plugintest.Config, pattern, configFile string) (err error) {
	if pattern != "" {
		if cfg.Run, err = regexp.Compile(pattern); err != nil {
			return command.Usage("", "--run: %w", err)
		}
	}
	policy, err := admit.New(admit.Config{ConfigFile: configFile})
	if err != nil {
		return command.Usage("", "%w", err)
	}
	cfg.Folders = policy.Folders()
	cfg.PassedDir = passedDir()
	cfg.Process = startProgram(*cfg, configFile != "")
	return nil
}

// watchTests runs the test files of paths, and runs them again when a file has changed, until ctx ends.
func watchTests(ctx context.Context, env *command.Env, paths []string, cfg plugintest.Config, output, lcov string) error {
	files, err := watchedFiles(paths, cfg)
	if err != nil {
		return err
	}
	for {
		seen := stamps(files)
		if err := testPlugins(ctx, env, paths, cfg, output, lcov, false); ctx.Err() == nil {
			_ = env.Report(err) // continue: the user may repair the file
		}
		path, ok := waitForChange(ctx, files, seen)
		if !ok {
			fmt.Fprintf(env.Stderr, "prober: %v\n", context.Cause(ctx))
			return nil
		}
		fmt.Fprintf(env.Stderr, "prober: %s has changed\n", path)
		if now, err := watchedFiles(paths, cfg); err == nil { // else the same, until the user has repaired them
			files = now
		}
	}
}

// watchedFiles returns the test files of paths, and the plugins that they test with their manifests.
func watchedFiles(paths []string, cfg plugintest.Config) (files []string, err error) {
	loaded, err := loadCases(paths)
	if err != nil {
		return nil, err
	}
	for _, f := range loaded {
		of := cmp.Or(cfg.Plugin, f.Plugin)
		if located, err := plugin.Locate(of); err == nil {
			of = located
		}
		files = append(files, f.Path, of)
		for _, beside := range []string{filepath.Join(filepath.Dir(of), plugin.ManifestFile), manifestBeside(of)} {
			if exists(beside) {
				files = append(files, beside)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// passedDir returns the folder that keeps which checks passed, or "" if there is none.
func passedDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "prober", "plugin-test")
}

// testPlugins runs the test files of paths and writes the reports. After a signal, or if a plugin
// cannot run, it writes the reports so far. lcov is the file for the lines that ran, or "".
func testPlugins(ctx context.Context, env *command.Env, paths []string, cfg plugintest.Config, output, lcov string, update bool) error {
	files, err := loadCases(paths)
	if err != nil {
		return err
	}
	t := tested{update: update}
	for _, f := range files {
		report, err := plugintest.Run(ctx, f, cfg)
		if ctx.Err() != nil {
			t.fail(command.ExitFailed, context.Cause(ctx))
			break
		}
		t.add(report, err)
	}
	if t.ran == 0 && t.code == command.ExitOK && cfg.Run != nil {
		return command.Usage("", "--run %s: no case and no check has such a name", cfg.Run)
	}
	if len(t.reports) > 0 {
		if err := plugintest.Write(env.Stdout, output, t.reports); err != nil {
			return command.Failed(err)
		}
	}
	if update && len(t.reports) > 0 {
		fmt.Fprintf(env.Stderr, "%d values updated; run the tests again\n", t.changed)
	}
	t.writeLines(lcov)
	if t.code == command.ExitOK {
		return nil
	}
	return &command.Exit{Code: t.code, Err: errors.Join(t.errs...), Hint: t.hint}
}

// tested has the results of the test files so far.
type tested struct {
	update       bool
	reports      []*plugintest.Report
	ran, changed int // number of cases and checks; number of updated values
	code         int // highest exit code of all files
	errs         []error
	hint         string
}

func (t *tested) fail(code int, errs ...error) {
	t.code, t.errs = max(t.code, code), append(t.errs, errs...)
}

// add adds the report of a file, or the error that prevented it.
func (t *tested) add(report *plugintest.Report, err error) {
	if err != nil {
		t.fail(command.ExitUsage, err)
		if e, ok := errors.AsType[*command.Exit](err); ok {
			t.hint = e.Hint
		} else if errors.Is(err, fs.ErrNotExist) {
			t.hint = "`prober plugin build` builds the plugin of a folder"
		}
		return
	}
	t.reports, t.ran = append(t.reports, report), t.ran+len(report.Results)
	if !report.OK() {
		t.fail(command.ExitFailed)
	}
	if t.update {
		n, err := plugintest.Update(report)
		if t.changed += n; err != nil {
			t.fail(command.ExitFailed, err)
		}
	}
}

// writeLines writes the lines that ran into a file, unless its name is "".
func (t *tested) writeLines(file string) {
	if file == "" {
		return
	}
	var lines bytes.Buffer
	some, err := plugintest.WriteLCOV(&lines, t.reports)
	if err == nil && !some {
		err = errors.New("--cover-profile: no plugin has lines; the report says why")
	}
	if err == nil {
		err = os.WriteFile(file, lines.Bytes(), 0o644)
	}
	if err != nil {
		t.fail(command.ExitFailed, err)
	}
}

// loadCases reads the test files of paths.
func loadCases(paths []string) (loaded []*plugintest.File, _ error) {
	var named []string
	for _, path := range paths {
		files, err := casesOf(path)
		if err != nil {
			return nil, err
		}
		named = append(named, files...)
	}
	files, err := plugintest.Find(named)
	if err != nil {
		return nil, command.Usage("a test file is called NAME"+plugintest.Suffix, "%w", err)
	}
	var errs []error
	hint := ""
	for _, path := range files {
		f, err := plugintest.Load(path)
		loaded, errs = append(loaded, f), append(errs, err)
		if err != nil && !strings.HasSuffix(path, plugintest.Suffix) {
			hint = "a test file is called NAME" + plugintest.Suffix
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, command.Usage(hint, "%w", err)
	}
	return loaded, nil
}

// casesOf returns path itself. For a module or a plugin.yaml it returns the test files beside it that name
// this plugin, and unreadable test files.
func casesOf(path string) ([]string, error) {
	dir := projectOf(path)
	if dir == path {
		return []string{path}, nil
	}
	module, err := plugin.Locate(path)
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+plugintest.Suffix))
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		f, err := plugintest.Load(file)
		return err == nil && !samePlugin(f.Plugin, module)
	})
	if len(files) > 0 {
		return files, nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil, command.Usage("", "%w", err)
	}
	return nil, command.Usage("", "%s: no *%s file beside it is about this plugin", path, plugintest.Suffix)
}

// samePlugin reports whether the path of a plugin in a test file is the same file as module.
func samePlugin(path, module string) bool {
	located, err := plugin.Locate(path)
	if err != nil {
		return false
	}
	if filepath.Clean(located) == filepath.Clean(module) {
		return true
	}
	a, errA := os.Stat(located)
	b, errB := os.Stat(module)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// startProgram returns a function that starts programs. A program that crashed starts again without a
// pause. configured reports whether --agent-config is set.
func startProgram(test plugintest.Config, configured bool) func(context.Context, plugin.Found, []string) (plugintest.Program, error) {
	return func(ctx context.Context, found plugin.Found, environ []string) (plugintest.Program, error) {
		if found.Manifest.Runtime == plugin.Nagios {
			check, err := process.LoadCheck(process.Config{Logger: slog.New(slog.DiscardHandler), Strict: test.Strict}, found)
			if err != nil && !configured {
				err = command.Usage("--agent-config FILE names a prober.yaml with nagios.folders", "%w", err)
			}
			return check, err
		}
		cfg := process.Config{Version: test.Version, Env: environ, Strict: test.Strict, Pause: time.Millisecond, MaxPause: time.Millisecond}
		return process.Load(ctx, cfg, found)
	}
}
