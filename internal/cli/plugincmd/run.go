package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/oneshot"
	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

func newRun(env *command.Env) *cobra.Command {
	o := &pluginProbe{Probe: oneshot.Probe{Env: env}}
	var (
		f      pluginFlags
		watch  bool
		record string
	)
	c := &cobra.Command{
		Use:   "run NAME|FILE.wasm|DIR [--target HOST:PORT] [--config JSON|@FILE] [--watch | --record FILE]",
		Short: "Probe a target with a plugin; watch or record its calls for tests",
		Args:  command.Arguments("NAME|FILE.wasm|DIR"),
		Example: "  prober plugin run demo --target 127.0.0.1:25 --explain\n" +
			"  prober plugin run demo --target 127.0.0.1:25 --config @demo.json --watch\n" +
			"  prober plugin run demo --target 127.0.0.1:25 --record demo/testdata/greeting.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case watch && record != "":
				return command.Usage("omit one of the two", "--watch and --record: one run is recorded")
			case watch:
				return o.watchPlugin(cmd.Context(), args[0], &f)
			case record != "":
				return o.recordPlugin(cmd.Context(), args[0], &f, record)
			default:
				return o.probePlugin(cmd.Context(), args[0], &f)
			}
		},
	}
	f.add(c)
	f.addAgentFile(c)
	c.Flags().BoolVar(&watch, "watch", false, "probe again when the module or the file of --config changes, until Ctrl-C")
	c.Flags().StringVar(&record, "record", "", "write the calls of the plugin and their answers to a file, for a test case to replay")
	return o.Flags(c)
}

// recordPlugin probes once, and writes the host calls of the plugin to a file.
func (o *pluginProbe) recordPlugin(ctx context.Context, name string, f *pluginFlags, file string) error {
	if strings.HasSuffix(file, plugintest.Suffix) {
		return command.Usage("for example testdata/session.yaml", "--record %s: a session must not have the name of a test file", file)
	}
	o.recorder = plugintest.NewRecorder()
	o.Wrap = func(h probe.Handler, config []byte) probe.Handler { return recording{h, o.recorder, config, o.grants} }
	verdict := o.probePlugin(ctx, name, f)
	e, _ := errors.AsType[*command.Exit](verdict)
	switch {
	case e != nil && e.Code == command.ExitUsage:
		return verdict // nothing was recorded
	case o.Stopped:
		fmt.Fprintf(o.Env.Stderr, "prober: nothing was recorded: the probe did not finish\n")
		return verdict
	}
	if err := o.recorder.Write(file); err != nil {
		err = fmt.Errorf("--record: %w", err)
		if e != nil {
			err = errors.Join(e.Err, err)
		}
		return command.Usage("", "%w", err)
	}
	folder := filepath.Dir(o.module)
	fmt.Fprintf(o.Env.Stderr, "prober: recorded %s; review it before you share it. As a case of %s:\n"+
		"- name: a recorded session\n  replay: %s\n",
		file, filepath.Join(folder, o.Handler+plugintest.Suffix), filepath.ToSlash(pathFrom(folder, file)))
	return verdict
}

// pathFrom returns the path of a file relative to a folder, or else its absolute path.
func pathFrom(folder, file string) string {
	if path, err := filepath.Rel(folder, file); err == nil {
		return path
	}
	if path, err := filepath.Abs(file); err == nil {
		return path // absolute
	}
	return file
}

// recording is a handler whose attempts are recorded.
type recording struct {
	handler  probe.Handler
	recorder *plugintest.Recorder
	config   []byte
	grants   []plugin.Grant
}

// Unwrap implements [probe.Wrapper].
func (r recording) Unwrap() probe.Handler { return r.handler }

// Probe implements [probe.Handler].
func (r recording) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	r.recorder.Begin()
	out, err := r.handler.Probe(ctx, req)
	r.recorder.Note(req, r.config, r.grants, out, err)
	return out, err
}

// watchPlugin probes, and probes again when a file has changed, until ctx ends.
func (o *pluginProbe) watchPlugin(ctx context.Context, name string, f *pluginFlags) error {
	found, err := f.find(o.Env, name)
	if err != nil {
		return err
	}
	if _, err := f.read(ctx, o.Env); err != nil {
		return err
	}
	files := []string{found.Path}
	if beside := filepath.Join(filepath.Dir(found.Path), plugin.ManifestFile); exists(beside) && beside != found.Path {
		files = append(files, beside)
	}
	if path, ok := strings.CutPrefix(f.config, "@"); ok {
		files = append(files, path)
	}
	ctx, stop := o.Env.Interruptible(ctx)
	defer stop()
	for {
		seen := stamps(files)
		err := o.probePlugin(ctx, name, f)
		if ctx.Err() == nil && !o.Stopped { // the probe or the watch may see the signal first
			_ = o.Env.Report(err) // continue: the user may repair the file
		}
		path, ok := waitForChange(ctx, files, seen)
		if !ok {
			fmt.Fprintf(o.Env.Stderr, "prober: %v\n", context.Cause(ctx))
			return nil
		}
		fmt.Fprintf(o.Env.Stderr, "prober: %s has changed\n", path)
	}
}

// pollPeriod is the time between two checks of files. Polling works on every system.
const pollPeriod = 300 * time.Millisecond

// stamps returns the stamp of each file.
func stamps(files []string) (all []string) {
	for _, path := range files {
		all = append(all, filestamp.Of(path))
	}
	return all
}

// waitForChange returns the first of files that changes, or false when ctx ends. A missing file is not a
// change, since compilers remove files before they write them.
func waitForChange(ctx context.Context, files, seen []string) (string, bool) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", false
		case <-tick.C:
		}
		if !slices.ContainsFunc(files, func(path string) bool { return !exists(path) }) {
			for i, now := range stamps(files) {
				if now != seen[i] {
					return files[i], true
				}
			}
		}
	}
}
