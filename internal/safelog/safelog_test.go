package safelog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/daeace23/prober/internal/safelog"
)

// villain is a handler that panics in one method.
type villain string

func (v villain) do(method string) {
	if string(v) == method {
		panic("a villain")
	}
}

func (v villain) Enabled(context.Context, slog.Level) bool { v.do("Enabled"); return true }
func (v villain) Handle(context.Context, slog.Record) error {
	v.do("Handle")
	return nil
}
func (v villain) WithAttrs([]slog.Attr) slog.Handler { v.do("WithAttrs"); return v }
func (v villain) WithGroup(string) slog.Handler      { v.do("WithGroup"); return v }

func TestPanicsAreIgnored(t *testing.T) {
	for _, method := range []string{"Enabled", "Handle", "WithAttrs", "WithGroup"} {
		safelog.New(slog.New(villain(method))).WithGroup("group").With("a", 1).Info("a line")
	}
	safelog.New(nil).Info("a line")
}

func TestRecordsAreUnchanged(t *testing.T) {
	var got, want bytes.Buffer
	for into, wrap := range map[*bytes.Buffer]func(*slog.Logger) *slog.Logger{&got: safelog.New, &want: func(l *slog.Logger) *slog.Logger { return l }} {
		l := wrap(slog.New(slog.NewTextHandler(into, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		l.WithGroup("group").With("a", 1).Warn("a line", "b", 2)
		l.Debug("not enabled")
	}
	if got.String() != want.String() || want.Len() == 0 {
		t.Errorf("got %q, want %q", got.String(), want.String())
	}
}
