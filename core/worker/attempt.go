package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/daeace23/prober/probe"
)

// Attempt calls h once. It truncates the output and the error text, and drops details that are too long or
// are not a JSON object. It converts a missed deadline into a Failure, and a panic into an error.
func Attempt(ctx context.Context, h probe.Handler, req probe.Request) (probe.Outcome, error) {
	outcome, err := probe.Call(ctx, h, req)
	if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		outcome, err = probe.TimedOut(req.Spec.Timeout), nil
	}
	outcome.Output, outcome.Details = probe.Cut(outcome.Output), objectOf(outcome.Details)
	return outcome, cut(err)
}

// cutError is an error with a truncated text.
type cutError struct {
	error
	text string
}

// Error implements error.
func (e *cutError) Error() string { return e.text }

// Unwrap returns the original error.
func (e *cutError) Unwrap() error { return e.error }

// cut returns err with a text of at most [probe.MaxOutput] bytes, because quarantines, events and observers
// keep it.
func cut(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); len(text) > probe.MaxOutput {
		return &cutError{err, probe.Cut(text)}
	}
	return err
}

// objectOf returns details if they are a JSON object of at most [probe.MaxOutput] bytes, and "" otherwise.
func objectOf(details string) string {
	if !strings.HasPrefix(details, "{") || len(details) > probe.MaxOutput || !json.Valid([]byte(details)) {
		return ""
	}
	return strings.ToValidUTF8(details, "\uFFFD")
}
