package process_test

import (
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
