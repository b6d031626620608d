// Package execprobe has the exec handler of the kubelet. A probe is a Success if its command exits with
// code 0.
package execprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// CommandRunner runs the commands of exec probes.
type CommandRunner interface {
	// RunInContainer runs cmd in the container and returns its output: stdout, then stderr. It
	// returns when ctx ends, or after timeout (0 means none), and leaves no process running. It
	// must not change cmd, which is the same slice in every call.
	//
	// If the command exits with a code other than 0, the error has a method ExitStatus() int. After
	// the timeout, the error matches [context.DeadlineExceeded]. Any other error means that the
	// command could not be run, and says nothing about the container.
	RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
}

// Config configures a [Handler].
type Config struct {
	// Runner runs the commands. It is required.
	Runner CommandRunner
}

// Handler is the exec handler. One Handler serves any number of probes.
type Handler struct {
	runner CommandRunner
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the exec handler, or an error if cfg.Runner is nil.
func New(cfg Config) (*Handler, error) {
	if cfg.Runner == nil {
		return nil, errors.New("a CommandRunner is required")
	}
	return &Handler{cfg.Runner}, nil
}

// Action is the configuration of one probe.
type Action struct {
	// Command is the program and its arguments. It is required. Variables are not expanded, and no
	// shell is involved.
	Command []string
}

// Bind returns the handler of one probe. It returns an error if there is no command.
func (h *Handler) Bind(a Action) (probe.Handler, error) {
	if len(a.Command) == 0 {
		return nil, errors.New("command: required")
	}
	return &bound{h, slices.Clone(a.Command)}, nil
}

// Prepare binds the handler to config, the JSON of a v1.ExecAction.
func (h *Handler) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	type ExecAction struct { // named as in the Kubernetes API, because errors show the name
		Command []string `json:"command"`
	}
	var a ExecAction
	if err := action.Decode(config, &a); err != nil {
		return nil, err
	}
	return h.Bind(Action(a))
}

// Probe always returns an error, because there is no command to run.
func (h *Handler) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	_, err := h.Bind(Action{})
	return probe.Outcome{}, err
}

// bound is a Handler with a command; read-only.
type bound struct {
	handler *Handler
	command []string
}

var _ probe.Describer = (*bound)(nil)

// Describe implements [probe.Describer].
func (h *bound) Describe(name string, _ *probe.Request) string {
	return strings.TrimSpace(name + " " + explain.ShortCommand(h.command))
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	start := time.Now()
	output, err := h.handler.runner.RunInContainer(ctx, req.ContainerID, h.command, req.Spec.Timeout)
	out, failure := answer(&req, output, err)
	switch {
	case failure == nil && out.Reason == probe.ReasonDeadline:
		h.wait(&req, string(output), err, time.Since(start)).Report(req.Trace, &out)
	case req.Trace != nil:
		e := probe.TraceEvent{Type: probe.TraceCall, Name: "exec", Duration: time.Since(start)}
		if req.Debug || err != nil {
			e.Detail = h.ended(&req, string(output), err)
		}
		req.Trace(e)
	}
	return out, failure
}

// answer returns the outcome for the results of a runner.
func answer(req *probe.Request, output []byte, err error) (probe.Outcome, error) {
	if err == nil {
		return outcome(req, probe.Success, "", output), nil
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		if exit.ExitStatus() == 0 {
			return outcome(req, probe.Success, "", output), nil
		}
		return outcome(req, probe.Failure, probe.ReasonExecExit, output), nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return outcome(req, probe.Failure, probe.ReasonDeadline, []byte(err.Error())), nil
	}
	return probe.Outcome{}, err
}

// ended describes a finished run of the command.
func (h *bound) ended(req *probe.Request, output string, err error) string {
	how := "exit code 0"
	if exit, ok := errors.AsType[exitError](err); ok {
		how = fmt.Sprintf("exit code %d", exit.ExitStatus())
	} else if err != nil {
		how = err.Error()
	}
	return fmt.Sprintf("%s: %s; %s", h.shown(req), how, explain.Output(req.Redacted(output)))
}

// shown returns the command for messages, cut to a limit. Secrets are redacted before the cut, because the
// rest of a cut secret could not be found.
func (h *bound) shown(req *probe.Request) string {
	words := make([]string, len(h.command))
	for i, w := range h.command {
		words[i] = req.Redacted(w)
	}
	return explain.ShortCommand(words)
}

// wait describes a run of the command that timed out.
func (h *bound) wait(req *probe.Request, output string, err error, took time.Duration) *explain.Wait {
	w := &explain.Wait{Call: "exec", Where: h.shown(req), Doing: "still running", For: took, Saw: []string{explain.Output(req.Redacted(output))}}
	if late, ok := errors.AsType[*CommandTimeoutError](err); ok && late.CPU > 0 {
		w.Own = append(w.Own, explain.CPU(late.CPU, took))
	}
	return w
}

func outcome(req *probe.Request, r probe.Result, reason probe.Reason, output []byte) probe.Outcome {
	if req.Redact == nil {
		output = output[:min(len(output), probe.MaxOutput+1)]
	}
	return probe.Outcome{Result: r, Reason: reason, Output: probe.Cut(req.Redacted(string(output)))}
}

// exitError is the error of a command that has exited with a code other than 0.
type exitError interface {
	error
	ExitStatus() int
}

// CommandExitError is the error of a command that exited with a code other than 0.
type CommandExitError struct{ Code int }

var _ exitError = (*CommandExitError)(nil)

func (e *CommandExitError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// ExitStatus returns the exit code.
func (e *CommandExitError) ExitStatus() int { return e.Code }

// CommandTimeoutError is the error of a command that was killed at its timeout. It
// matches [context.DeadlineExceeded].
type CommandTimeoutError struct {
	Command []string
	Timeout time.Duration
	// CPU is the processor time of the command without its children. 0 means unknown.
	CPU time.Duration
}

// Error returns the kubelet's text, which becomes the output of the probe.
func (e *CommandTimeoutError) Error() string {
	return fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(e.Command, " "), e.Timeout)
}

// Is makes the error match [context.DeadlineExceeded].
func (e *CommandTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
