package engine_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/probe"
)

// describing is a handler that describes its probes with a function.
type describing struct {
	probe.Handler
	describe func(name string, req *probe.Request) string
}

func (d describing) Describe(name string, req *probe.Request) string { return d.describe(name, req) }

// Readers get targets repeatedly. A handler whose Describe panics is logged only once.
func TestPanicOfDescribeIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, probe.Readiness, success)
		var log strings.Builder
		r.shared.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r.cfg.Handler = describing{r.handler, func(string, *probe.Request) string { panic("broken") }}
		r.run()
		for range 3 {
			if got := r.w.Target(); got != "fake" {
				t.Errorf("got %q, want the name of the handler", got)
			}
		}
		if lines := strings.Count(log.String(), "panic=broken"); lines != 1 {
			t.Errorf("%d lines in the log, want 1:\n%s", lines, log.String())
		}
		r.w.Update(engine.Change{Setup: r.cfg.Setup, KeepPaused: true})
		if r.w.Target(); strings.Count(log.String(), "panic=broken") != 2 {
			t.Errorf("after a change the log is:\n%s", log.String())
		}
	})
}

func TestTargetOfStatus(t *testing.T) {
	for name, c := range map[string]struct {
		describe func(name string, req *probe.Request) string // nil: the handler has no Describe
		want     string
	}{
		"of no Describer": {nil, "fake 10.0.0.1:80"},
		"as an attempt has it": {func(name string, req *probe.Request) string {
			return name + " " + req.PodIP + " " + req.Container.Name + " " + req.Target.Address()
		}, "fake 10.0.0.1 web 10.0.0.1:80"},
		"one line":          {func(string, *probe.Request) string { return "a\nb\x1b[2J\u202ec" }, "a b [2J\ufffdc"},
		"at most 256 bytes": {func(string, *probe.Request) string { return strings.Repeat("é", 200) }, strings.Repeat("é", 126) + "…"},
		"after a panic":     {func(string, *probe.Request) string { panic("broken") }, "fake"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, probe.Readiness, success)
				r.cfg.Target.Port = 80
				if c.describe != nil {
					r.cfg.Handler = describing{r.handler, c.describe}
				}
				r.run()
				if status, got := r.w.Status().Target, r.w.Target(); got != c.want || status != got {
					t.Errorf("got %q, and %q in the status; want %q", got, status, c.want)
				}
			})
		})
	}
}
