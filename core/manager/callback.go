package manager

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/daeace23/prober/probe"
)

// call calls f, a callback called name. If f panics, call logs the panic with its stack and returns it as
// an error. It does the same if the Error method of the returned error panics, as with a nil pointer.
func (m *Manager) call(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", name, p)
			m.logPanic(name)
		}
	}()
	if err = f(); err != nil {
		_ = err.Error()
	}
	return err
}

// logPanic logs a panic without its value, which may contain secrets of a config; the error has the
// redacted value. It recovers from a panic of the logger.
func (m *Manager) logPanic(name string) {
	defer func() { _ = recover() }()
	cmp.Or(m.cfg.Logger, slog.Default()).Error("callback of the manager panicked", "callback", name, "stack", string(debug.Stack()))
}

// release releases a handler; see [probe.Releaser].
func (m *Manager) release(h probe.Handler) {
	_ = m.call("Releaser", func() error { probe.Release(h); return nil })
}
