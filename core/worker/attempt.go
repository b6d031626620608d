package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/daeace23/prober/probe"
)

// Attempt calls h once. It cuts the output and the text of an error, drops details that are not a JSON object
// or too long, turns a missed deadline into a Failure, and a panic into an error.
func Attempt(ctx context.Context, h probe.Handler, req probe.Request) (probe.Outcome, error) {
	outcome, err := probe.Call(ctx, h, req)
	if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		outcome, err = probe.TimedOut(req.Spec.Timeout), nil
	}
	outcome.Output, outcome.Details = probe.Cut(outcome.Output), objectOf(outcome.Details)
	return outcome, cut(err)
}

// cutError is an error with a shorter text.
type cutError struct {
	error
	text string
}

// Error returns the beginning of the text.
func (e *cutError) Error() string { return e.text }

// Unwrap returns the error.
func (e *cutError) Unwrap() error { return e.error }

// cut returns err with a text of at most [probe.MaxOutput] bytes: quarantines, events and observers keep it.
func cut(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); len(text) > probe.MaxOutput {
		return &cutError{err, probe.Cut(text)}
	}
	return err
}

// objectOf returns details when they are a JSON object of at most [probe.MaxOutput] bytes, and
// "" otherwise.
func objectOf(details string) string {
	if !strings.HasPrefix(details, "{") || len(details) > probe.MaxOutput || !json.Valid([]byte(details)) {
		return ""
	}
	return strings.ToValidUTF8(details, "\uFFFD")
}
