package command

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/daeace23/prober/internal/explain"
)

// Exit codes without the codes of verdicts.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 64 // wrong usage, or an invalid file
)

// Exit is an error with an exit code. If Err is nil, no error is printed.
type Exit struct {
	Code int
	Err  error
	Hint string
}

// Error implements error.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns e.Err.
func (e *Exit) Unwrap() error { return e.Err }

// Usage returns an error with exit code 64. hint may be empty.
func Usage(hint, format string, args ...any) error {
	return &Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Failed returns an error with exit code 1.
func Failed(err error) error { return &Exit{Code: ExitFailed, Err: err} }

// Report writes err to stderr and returns its exit code. An error that is not an [Exit]
// comes from cobra, and is wrong usage.
func (env *Env) Report(err error) int {
	e := exitOf(err)
	if e.Err != nil {
		for line := range strings.Lines(e.Err.Error()) {
			fmt.Fprintf(env.Stderr, "prober: error: %s\n", shown(line))
		}
	}
	if e.Hint != "" {
		fmt.Fprintf(env.Stderr, "prober: hint: %s\n", shown(e.Hint))
	}
	return e.Code
}

// shown returns a line for a terminal, with its indentation: errors contain texts of modules, files and peers.
func shown(line string) string {
	text := strings.TrimLeft(line, " \t")
	return line[:len(line)-len(text)] + explain.OneLine(text)
}

// ReportJSON is like [Env.Report], with JSON lines in the format of the agent's log.
func (env *Env) ReportJSON(err error) int {
	e := exitOf(err)
	if e.Err == nil {
		return e.Code
	}
	log := slog.New(slog.NewJSONHandler(env.Stderr, nil))
	if e.Hint != "" {
		log = log.With("hint", e.Hint)
	}
	for line := range strings.Lines(e.Err.Error()) {
		log.Error(strings.TrimSuffix(line, "\n"))
	}
	return e.Code
}

func exitOf(err error) *Exit {
	if err == nil {
		return &Exit{Code: ExitOK}
	}
	if e, ok := errors.AsType[*Exit](err); ok {
		return e
	}
	return &Exit{Code: ExitUsage, Err: err}
}
