// Package safelog protects goroutines from panics of an embedding program's logger.
package safelog

import (
	"cmp"
	"context"
	"log/slog"
)

// New returns a logger that writes to l and ignores its panics. A record for which l panics is lost. If l is nil, all
// records are discarded.
func New(l *slog.Logger) *slog.Logger {
	return slog.New(handler{cmp.Or(l, discard).Handler()})
}

var discard = slog.New(slog.DiscardHandler)

type handler struct{ inner slog.Handler }

var _ slog.Handler = handler{}

// Enabled implements [slog.Handler].
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	defer func() { _ = recover() }()
	return h.inner.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.inner.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return handler{h.inner.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return handler{h.inner.WithGroup(name)}
}
