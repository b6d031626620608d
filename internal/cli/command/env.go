// Package command has the common parts of prober's commands. [Env] is the environment of a command, and
// [Exit] an error with its exit code and hint. flags.go and output.go have the flags and formats of several
// commands. Read env.go first.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
)

// Env is the environment of a command: arguments, variables, streams and signals.
type Env struct {
	Args      []string // without the program's name
	LookupEnv func(name string) (string, bool)
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Version   string // of prober
	Compiler  string // path of the compiler, see wasm.Config; "" compiles in this process
	// Notify returns a channel that receives the given signals. They have no other effect until stop is
	// called.
	Notify func(signals ...os.Signal) (c <-chan os.Signal, stop func())
}

// OS returns the Env of this process.
func OS(version string) Env {
	self, _ := os.Executable()
	return Env{
		Args: argsOf(os.Args), LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: version, Compiler: self,
		Notify: func(signals ...os.Signal) (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 4)
			signal.Notify(c, signals...)
			return c, func() { signal.Stop(c) }
		},
	}
}

// argsOf returns the arguments of a command line. The program is a plugin of kubectl by its name kubectl-prober.
func argsOf(line []string) []string {
	if len(line) > 0 && strings.TrimSuffix(filepath.Base(line[0]), ".exe") == "kubectl-prober" {
		return append([]string{"kubectl"}, line[1:]...)
	}
	return line[min(len(line), 1):]
}

// Warn writes a warning to stderr.
func (env *Env) Warn(format string, args ...any) {
	prefix := "prober: warning: "
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintf(env.Stderr, "%s%s\n", prefix, shown(line))
		prefix = ""
	}
}

// pathFlags are lists of paths. Their variables have the separators of PATH.
var pathFlags = []string{"filename", "plugins"}

// notFromEnv annotates flags that have no environment variable.
const notFromEnv = "not-from-env"

// fromEnv annotates flags that a variable has set.
const fromEnv = "from-env"

// NotFromEnv marks a flag that has no environment variable, because its meaning differs from the flag of
// `prober run` with the same name.
func NotFromEnv(f *pflag.Flag) {
	f.Annotations = map[string][]string{notFromEnv: {"true"}}
}

// SetFlags sets flags that are not on the command line from variables: --log-level from
// PROBER_LOG_LEVEL.
func (env *Env) SetFlags(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Annotations[notFromEnv] != nil || err != nil {
			return
		}
		name := "PROBER_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(f.Name))
		value, ok := env.LookupEnv(name)
		if !ok || value == "" {
			return
		}
		values := []string{value}
		if slices.Contains(pathFlags, f.Name) {
			values = filepath.SplitList(value)
		}
		for _, v := range values {
			if setErr := flags.Set(f.Name, v); setErr != nil {
				err = Usage("", "%s: %w", name, setErr)
			}
		}
		if f.Annotations == nil {
			f.Annotations = make(map[string][]string)
		}
		f.Annotations[fromEnv] = []string{name}
	})
	return err
}

// Interruptible returns a context that SIGINT and SIGTERM cancel, until stop is called.
func (env *Env) Interruptible(ctx context.Context) (_ context.Context, stop func()) {
	return env.InterruptibleTwice(ctx, func() {})
}

// InterruptibleTwice is like [Env.Interruptible], and calls again at each signal after the first.
func (env *Env) InterruptibleTwice(ctx context.Context, again func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals, stopSignals := env.Notify(os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				cancel(stoppedBy(s))
				if !first {
					again()
				}
			case <-ended:
				return
			}
		}
	})
	return ctx, func() {
		stopSignals()
		close(ended)
		watching.Wait()
		cancel(nil)
	}
}

// stoppedBy returns the error of a command that a signal has stopped.
func stoppedBy(s os.Signal) error {
	name := strings.ToUpper(s.String())
	switch s {
	case os.Interrupt:
		name = "SIGINT"
	case syscall.SIGTERM:
		name = "SIGTERM"
	}
	return fmt.Errorf("stopped by %s", name)
}
