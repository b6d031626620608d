package limit_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/limit"
	"github.com/daeace23/prober/probe"
)

var discard = slog.New(slog.DiscardHandler)

// full implements all optional interfaces, and records their calls.
type full struct {
	probe.HandlerFunc
	calls *[]string
}

func (f full) note(call string)                                    { *f.calls = append(*f.calls, call) }
func (f full) Prepare([]byte, probe.Target) (probe.Handler, error) { f.note("Prepare"); return f, nil }
func (f full) Release()                                            { f.note("Release") }
func (f full) Try(context.Context) error                           { f.note("Try"); return errInside }
func (f full) CheckSecrets(fields []string) error {
	f.note("CheckSecrets " + fields[0])
	return errInside
}
func (f full) Secrets() []string                     { f.note("Secrets"); return nil }
func (f full) KeepSecret(redact func(string) string) { f.note("KeepSecret " + redact("a")) }
func (f full) Close() error                          { f.note("Close"); return errInside }

func (f full) Describe(name string, _ *probe.Request) string { return name + " inside" }

func (f full) Inherit(from probe.Handler) {
	if _, ok := from.(full); !ok {
		f.note("Inherit from another type")
	}
	f.note("Inherit")
}

// interruptible is a handler whose Prepare takes a context.
type interruptible struct{ full }

func (i interruptible) PrepareContext(ctx context.Context, _ []byte, _ probe.Target) (probe.Handler, error) {
	return nil, context.Cause(ctx)
}

var errInside = errors.New("of the handler inside")

func TestOptionalInterfacesOfTheHandlerInside(t *testing.T) {
	var calls []string
	l := limit.New(limit.Config{MaxInFlight: 1})
	h := l.Wrap(full{calls: &calls})
	prepared, err := h.Prepare(nil, probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	probe.Inherit(prepared, l.Wrap(full{}))
	probe.Inherit(prepared, full{})
	for _, err := range []error{
		probe.Try(t.Context(), prepared), probe.CheckSecrets(prepared, []string{"password"}), h.Close(),
	} {
		if err != errInside {
			t.Errorf("got %v", err)
		}
	}
	probe.SecretsOf(prepared)
	probe.KeepSecret(prepared, func(string) string { return "***" })
	if got := probe.Describe(prepared, "fake", &probe.Request{}); got != "fake inside" {
		t.Errorf("Describe: %q", got)
	}
	probe.Release(prepared)
	want := []string{"Prepare", "Inherit", "Inherit", "Try", "CheckSecrets password", "Close", "Secrets", "KeepSecret ***", "Release"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Wrap(interruptible{}).PrepareContext(gone, nil, probe.Target{}); err != context.Canceled {
		t.Errorf("PrepareContext: %v", err)
	}
}

func TestHandlerWithoutOptionalInterfaces(t *testing.T) {
	h := limit.New(limit.Config{}).Wrap(probe.HandlerFunc(nil))
	prepared, err := h.Prepare([]byte("{}"), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	probe.Inherit(prepared, h)
	probe.KeepSecret(prepared, nil)
	probe.Release(prepared)
	for _, err := range []error{probe.Try(t.Context(), prepared), probe.CheckSecrets(prepared, []string{"a"}), h.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Prepare([]byte(`{"a":1}`), probe.Target{}); err == nil || err.Error() != "it takes no config" {
		t.Errorf("got %v", err)
	}
}
