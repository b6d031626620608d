package sdktest

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// Suite tests the Go plugin in the working folder, both natively and as a guest.
//
//	var suite = sdktest.NewSuite(check{})
//
//	func TestMain(m *testing.M)  { suite.Main(m) }
//	func TestCases(t *testing.T) { suite.Run(t) }
type Suite struct {
	plugin sdk.Plugin
	guest  *Guest // read-only after Main has built it
}

// NewSuite returns a suite for p, the plugin that the working folder registers.
func NewSuite(p sdk.Plugin) *Suite { return &Suite{plugin: p} }

// Main builds the guest, runs the tests and exits. Call it from TestMain.
func (s *Suite) Main(m *testing.M) {
	var err error
	if s.guest, err = NewGuest(context.Background(), "."); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	_ = s.guest.Close()
	os.Exit(code)
}

// Run runs the cases of the files natively, as [Run] does, and as a guest, as [Guest.Run] does.
func (s *Suite) Run(t *testing.T, files ...string) {
	t.Helper()
	t.Run("native", func(t *testing.T) { Run(t, s.plugin, files...) })
	t.Run("guest", func(t *testing.T) { s.guest.Run(t, files...) })
}

// Handlers returns the plugin in both forms: "native" and "guest".
func (s *Suite) Handlers() map[string]probe.Preparer {
	return map[string]probe.Preparer{"native": sdk.Native(s.plugin), "guest": s.guest}
}

// Attempt makes one attempt with a config against a target.
func Attempt(t *testing.T, h probe.Preparer, config string, target probe.Target, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	handler, err := h.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return handler.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: timeout}})
}
