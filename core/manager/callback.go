package manager

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/daeace23/prober/probe"
)

// call calls f, a function of others called name. A panic is logged with its stack, and is the error. So is
// one of the error that f returns, such as a nil pointer.
func (m *Manager) call(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", name, p)
			m.blame(name)
		}
	}()
	if err = f(); err != nil {
		_ = err.Error()
	}
	return err
}

// blame logs a panic without its value, which may have secrets of a config: the error has it, redacted. A
// panic of the logger is nobody else's fault either.
func (m *Manager) blame(name string) {
	defer func() { _ = recover() }()
	cmp.Or(m.cfg.Logger, slog.Default()).Error("callback of the manager panicked", "callback", name, "stack", string(debug.Stack()))
}

// release releases a handler; see [probe.Releaser].
func (m *Manager) release(h probe.Handler) {
	_ = m.call("Releaser", func() error { probe.Release(h); return nil })
}
