// Package safelog keeps the faults of a program's logger out of goroutines that the program has not started.
package safelog

import (
	"cmp"
	"context"
	"log/slog"
)

// New returns l with its panics ignored: a line that l cannot handle is lost. A nil l discards all lines.
func New(l *slog.Logger) *slog.Logger {
	return slog.New(handler{cmp.Or(l, discard).Handler()})
}

var discard = slog.New(slog.DiscardHandler)

type handler struct{ of slog.Handler }

var _ slog.Handler = handler{}

// Enabled implements [slog.Handler].
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	defer func() { _ = recover() }()
	return h.of.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.of.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return handler{h.of.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return handler{h.of.WithGroup(name)}
}
