// Package cli is prober's command line. Everything of the outside world enters
// through one [Env]; [Main] reads its arguments, runs one command and returns the
// exit code.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/handlers"
)

// Version is set by the build.
var Version = "dev"

// Exit codes beside those of a verdict.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64 // wrong usage, or a file that cannot be used
)

// Env is the outside world.
type Env struct {
	Args      []string // without the program's name
	LookupEnv func(name string) (string, bool)
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Compiler  string // see wasm.Config; "" compiles in this process
	// Notify returns a channel of the given signals, which are no longer handled
	// otherwise until stop is called.
	Notify func(signals ...os.Signal) (c <-chan os.Signal, stop func())

	json bool // lines on stderr are JSON
}

// OS returns the Env of this process.
func OS() Env {
	self, _ := os.Executable()
	return Env{
		Compiler: self,
		Args:     os.Args[1:], LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Notify: func(signals ...os.Signal) (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 4)
			signal.Notify(c, signals...)
			return c, func() { signal.Stop(c) }
		},
	}
}

// exit is an error with the exit code that it asks for. Without an err inside, nothing
// is printed.
type exit struct {
	code int
	err  error
	hint string
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// Main runs the command that env.Args asks for and returns the exit code.
func Main(env Env) int {
	root := newRoot(&env)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if f := cmd.Flags().Lookup("log-format"); f != nil {
		format, _ := env.LookupEnv("PROBER_LOG_FORMAT")
		// Flags behind one that is wrong were not read.
		unread := err != nil && (slices.Contains(env.Args, "--log-format=json") || strings.Contains(strings.Join(env.Args, "\x00"), "--log-format\x00json"))
		env.json = f.Value.String() == "json" || !f.Changed && (format == "json" || unread)
	}
	return env.report(err)
}

// report tells of err on stderr and returns its exit code. What is no [exit] comes
// from cobra, and is wrong usage.
func (env *Env) report(err error) int {
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exit](err)
	if !ok {
		e = &exit{code: exitUsage, err: err}
	}
	if env.json {
		env.reportJSON(e)
		return e.code
	}
	if e.err != nil {
		for line := range strings.Lines(e.err.Error()) {
			fmt.Fprintf(env.Stderr, "prober: error: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if e.hint != "" {
		fmt.Fprintf(env.Stderr, "prober: hint: %s\n", e.hint)
	}
	return e.code
}

// reportJSON is report for who reads stderr as JSON, as the lines of the agent's log are.
func (env *Env) reportJSON(e *exit) {
	log := slog.New(slog.NewJSONHandler(env.Stderr, nil))
	if e.hint != "" {
		log = log.With("hint", e.hint)
	}
	if e.err == nil {
		return
	}
	for line := range strings.Lines(e.err.Error()) {
		log.Error(strings.TrimSuffix(line, "\n"))
	}
}

func usage(hint, format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "prober",
		Short:         "Probe containers as the kubelet does, with handlers of your own",
		Long:          "Prober keeps the kubelet's liveness, readiness and startup probes, and lets a sandboxed\nplugin say what a probe does.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Example:       "  prober run -f pod.yaml --plugins /etc/prober/plugins\n  prober probe http http://127.0.0.1:8080/healthz --explain\n  prober plugin new demo --lang go",
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return env.override(cmd.Flags())
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(flagHint(cmd, err), "%w", err)
	})
	root.AddCommand(newRun(env), newProbe(env), newValidate(env), newPlugin(env), newVersion(env))
	root.SetHelpCommand(newHelp())
	completeFlags(root)
	completion(root)
	return root
}

// flagHint says what may have been meant by a flag, and where the flags are listed.
func flagHint(cmd *cobra.Command, err error) string {
	hint := cmd.CommandPath() + " --help lists the flags"
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return hint
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := handlers.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
	}
	return hint
}

// pathFlags hold lists of paths, which the environment separates as it does in PATH.
var pathFlags = []string{"filename", "plugins"}

// notFromEnv annotates flags that no variable sets: they mean another thing than the
// flag of that name of `prober run`.
const notFromEnv = "not-from-env"

// override sets the flags that the command line does not from variables: --log-level
// from PROBER_LOG_LEVEL.
func (env *Env) override(flags *pflag.FlagSet) (err error) {
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
				err = usage("", "%s: %w", name, setErr)
			}
		}
	})
	return err
}

// interruptible returns a context that SIGINT and SIGTERM end, until stop is called.
func (env *Env) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals, stopSignals := env.Notify(os.Interrupt, syscall.SIGTERM)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("stopped by %s", signalName(s)))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stopSignals()
		cancel(nil)
		watching.Wait()
	}
}

// signalName returns the name that people know a signal by.
func signalName(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	default:
		return strings.ToUpper(s.String())
	}
}

// folder makes a command that only holds others.
func folder(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	c.RunE = needCommand
	c.AddCommand(commands...)
	return c
}

// needCommand runs a command that only holds others.
func needCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("known: "+strings.Join(commandNames(cmd), ", "), "%s: a command is required", cmd.CommandPath())
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand is the error of a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	names := commandNames(cmd)
	hint := "known: " + strings.Join(names, ", ")
	if near := handlers.Nearest(word, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	if !cmd.HasParent() {
		return usage(hint, "unknown command %q for %q", word, cmd.Name())
	}
	return usage(hint, "%s: unknown command %q", cmd.CommandPath(), word)
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// arguments wants the arguments that words name, and none more.
func arguments(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(words) {
			return nil
		}
		want := cmp.Or(strings.Join(words, " "), "no arguments")
		return usage("usage: "+cmd.UseLine(), "%s: want %s, got %s", cmd.CommandPath(), want, count(len(args), "argument"))
	}
}
