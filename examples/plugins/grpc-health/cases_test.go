package main

import (
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/sdk/sdktest"
)

// modulePath is the guest with its manifest inside; read-only after TestMain.
var modulePath string

// The cases of grpc-health_test.yaml and the conformance checks, as prober plugin test runs
// them.
func TestCases(t *testing.T) {
	f, err := plugintest.Load("grpc-health_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	report, err := plugintest.Run(t.Context(), f, plugintest.Config{Plugin: modulePath, CacheDir: cacheDir(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK() {
				t.Errorf("%q\n%s%q", r.Failures, r.Diff, r.Trace)
			}
		})
	}
}

// The same cases without the sandbox: for coverage, and for a debugger.
func TestCasesNatively(t *testing.T) { sdktest.Run(t, check{}, "grpc-health_test.yaml") }
