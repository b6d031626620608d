package plugincmd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin/plugintest"
)

// fuzz is one run of `prober plugin fuzz`.
type fuzz struct {
	env    *command.Env
	cfg    plugintest.FuzzConfig
	folder string // for the files of findings
	found  int
}

func newFuzz(env *command.Env) *cobra.Command {
	f := &fuzz{env: env}
	c := &cobra.Command{
		Use:   "fuzz [FILE.wasm] CASES.yaml",
		Short: "Search for faults with peers that break the protocol",
		Long: "Fuzz runs random variants of the passing cases of a test file, in which the peers break the\n" +
			"protocol, until --time is over or a signal comes. FILE.wasm is the module to test, instead of the\n" +
			"one in the test file.\n\n" +
			"Fuzz saves each fault, once for each cause, as a test file in testdata/fuzz beside CASES.yaml. Run\n" +
			"such a file with `prober plugin test FILE`.\n\n" +
			"Exit code 0 nothing was found, 1 a fault was found, 64 wrong usage.",
		Example: "  prober plugin fuzz demo/demo_test.yaml --time 1m\n  prober plugin fuzz demo/demo.wasm demo/demo_test.yaml --seed 7",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases := args[len(args)-1]
			if len(args) == 2 {
				f.cfg.Plugin = args[0]
			}
			if f.cfg.Time < 0 {
				return command.Usage("", "--time %s: must not be negative", f.cfg.Time)
			}
			if !cmd.Flags().Changed("seed") {
				f.cfg.Seed = rand.Uint64()
			}
			f.folder = filepath.Join(filepath.Dir(cases), "testdata", "fuzz")
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			return f.run(ctx, cases)
		},
	}
	c.Flags().DurationVar(&f.cfg.Time, "time", 0, "duration of the search; 0 is until a signal comes")
	c.Flags().Uint64Var(&f.cfg.Seed, "seed", 0, "number that determines the variants; random by default")
	return c
}

// run fuzzes the plugin of a test file and reports the faults.
func (f *fuzz) run(ctx context.Context, path string) error {
	cases, err := plugintest.Load(path)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	fmt.Fprintf(f.env.Stderr, "fuzz: seed %d\n", f.cfg.Seed)
	start := time.Now()
	f.cfg.Version, f.cfg.Folder, f.cfg.Found, f.cfg.Progress = f.env.Version, f.folder, f.save, func(variants, findings int) {
		elapsed := time.Since(start)
		fmt.Fprintf(f.env.Stderr, "fuzz: %s, %d variants (%.0f/s), %d found\n",
			elapsed.Round(time.Second), variants, float64(variants)/elapsed.Seconds(), findings)
	}
	variants, err := plugintest.Fuzz(ctx, cases, f.cfg)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "`prober plugin build` builds the plugin of a folder"
		}
		return command.Usage(hint, "%w", err)
	}
	stopped := ""
	if f.found == plugintest.MaxFindings {
		stopped = "; stopped there"
	}
	fmt.Fprintf(f.env.Stdout, "%d variants in %s, %d found%s\n", variants, time.Since(start).Round(100*time.Millisecond), f.found, stopped)
	if f.found > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}

// save writes the file of a finding.
func (f *fuzz) save(found plugintest.Finding) error {
	f.found++
	name := fmt.Sprintf("%x%s", sha256.Sum256([]byte(found.File)), plugintest.Suffix)
	path := filepath.Join(f.folder, name[56:])
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(found.File), 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f.env.Stdout, "%s\n  saved as %s\n", found.Reason, path)
	return err
}
