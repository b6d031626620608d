package process_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/probe"
)

func TestProgramIsNotRunForAnotherNetwork(t *testing.T) {
	h := prepareCheck(t, loadCheck(t, `[check_it, "{{config.mode}}"]`, checkFolder(t)), `{"mode":"ok"}`)
	namespace, err := netns.Open(netnstest.New(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	out, err := h.Probe(netns.With(t.Context(), namespace), probe.Request{})
	if err == nil || probe.ReasonOf(err) != probe.ReasonDenied || !strings.HasSuffix(err.Error(), "a program cannot probe in the network namespace "+namespace.Path()+"; WebAssembly plugins can") {
		t.Errorf("got %+v, %v", out, err)
	}
	if out, err := h.Probe(t.Context(), probe.Request{}); err != nil || out.Result != probe.Success {
		t.Errorf("in the own network: got %+v, %v", out, err)
	}
}

// TestProgramIsNotRunForTargetThatGuardRefuses checks that the guard sees the target before a program runs.
func TestProgramIsNotRunForTargetThatGuardRefuses(t *testing.T) {
	h := prepareCheck(t, loadCheck(t, `[check_it, "{{config.mode}}"]`, checkFolder(t)), `{"mode":"ok"}`)
	guarded := netns.WithGuard(t.Context(), func(to netns.To) error {
		if to.Host == "10.0.0.7" || to.Host == "db.test" && !to.Addr.IsValid() {
			return nil
		}
		if to.Addr == netip.MustParseAddr("10.0.0.7") {
			return nil
		}
		return errors.New("refused by the guard")
	})
	for _, c := range []struct {
		target probe.Target
		runs   bool
	}{
		{probe.Target{Host: "10.0.0.7"}, true}, {probe.Target{Host: "db.test"}, true},
		{probe.Target{Host: "10.96.0.1"}, false}, {probe.Target{Host: "other.test"}, false}, {probe.Target{Unix: "/run/containerd/containerd.sock"}, false}, {probe.Target{}, false},
	} {
		out, err := h.Probe(guarded, probe.Request{Target: c.target})
		if c.runs && (err != nil || out.Result != probe.Success) || !c.runs && err == nil {
			t.Errorf("%+v: got %+v, %v", c.target, out, err)
		}
	}
}
