package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newPluginRun(env *Env) *cobra.Command {
	o := &oneShot{env: env}
	var (
		f     pluginFlags
		watch bool
	)
	c := &cobra.Command{
		Use:     "run NAME|FILE.wasm|DIR [--target HOST:PORT] [--config JSON|@FILE] [--watch]",
		Short:   "Let a plugin probe a target, again whenever it is built anew",
		Args:    arguments("NAME|FILE.wasm|DIR"),
		Example: "  prober plugin run demo --target 127.0.0.1:25 --explain\n  prober plugin run demo --target 127.0.0.1:25 --config @demo.json --watch",
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return o.watchPlugin(cmd.Context(), args[0], &f)
			}
			return o.probePlugin(cmd.Context(), args[0], &f)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&watch, "watch", false, "probe again when the module or the file of --config changes, until Ctrl-C")
	return o.flags(c)
}

// watchPlugin probes, and probes again when a file has changed, until ctx ends.
func (o *oneShot) watchPlugin(ctx context.Context, name string, f *pluginFlags) error {
	found, err := findPlugin(name, f.dirs)
	if err != nil {
		return err
	}
	if _, err := f.read(o.env); err != nil {
		return err
	}
	files := []string{found.Path}
	if path, ok := strings.CutPrefix(f.config, "@"); ok {
		files = append(files, path)
	}
	ctx, stop := o.env.interruptible(ctx)
	defer stop()
	for {
		seen := statesOf(files)
		err := o.probePlugin(ctx, name, f)
		if ctx.Err() == nil {
			_ = o.env.report(err) // the verdict was printed, and a file that is broken is mended some time
		}
		path, ok := awaitChange(ctx, files, seen)
		if !ok {
			fmt.Fprintf(o.env.Stderr, "prober: %v\n", context.Cause(ctx))
			return nil
		}
		fmt.Fprintf(o.env.Stderr, "prober: %s has changed\n", path)
	}
}

// lookEvery is how often files are looked at. No notification of the system is as
// portable.
const lookEvery = 300 * time.Millisecond

// fileState is what tells a file that has changed; zero for one that is not there.
type fileState struct {
	changed time.Time
	size    int64
}

func statesOf(files []string) []fileState {
	states := make([]fileState, len(files))
	for i, path := range files {
		if info, err := os.Stat(path); err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

// awaitChange returns the first of files that is no longer as it was seen, and false
// when ctx ends. A file that is gone is waited for: compilers remove and write.
func awaitChange(ctx context.Context, files []string, seen []fileState) (string, bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", false
		case <-tick.C:
		}
		now := statesOf(files)
		if slices.Contains(now, fileState{}) {
			continue
		}
		for i := range files {
			if now[i] != seen[i] {
				return files[i], true
			}
		}
	}
}
