// Package sdktest runs the test cases of a plugin in `go test`: natively, with coverage
// and in a debugger, and as a guest. The *_test.yaml files are the ones that `prober plugin
// test` runs in the sandbox, which stays the last word on a plugin.
//
//	func TestCasesNatively(t *testing.T) { sdktest.Run(t, check{}) }
//	func TestCases(t *testing.T)         { guest.Run(t) } // see Guest
package sdktest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// Run runs the cases of the files, each in a subtest that has its name; without files,
// of all that are in the working folder and below. The config of a case is held against
// the schema of the plugin.yaml beside its file, if there is one.
//
// The network, DNS, HTTP and what the probe keeps are played, and time passes only while
// all goroutines wait: an attempt runs in a bubble of testing/synctest, so it must not
// reach for a network but by the SDK. Denials and the bounds of memory can be seen in the
// sandbox only: they are not judged, and a case that is about nothing else does not run,
// which the test's log says.
func Run(t *testing.T, p sdk.Plugin, files ...string) {
	t.Helper()
	eachFile(t, files, func(t *testing.T, file string) { runFile(t, p, file) })
}

// eachFile runs the files, or all that are in the working folder and below, in subtests if
// there are several.
func eachFile(t *testing.T, files []string, run func(*testing.T, string)) {
	t.Helper()
	if len(files) == 0 {
		found, err := plugintest.Find([]string{"."})
		if err != nil {
			t.Fatal(err)
		}
		files = found
	}
	for _, file := range files {
		if len(files) == 1 {
			run(t, file)
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) { run(t, file) })
	}
}

func runFile(t *testing.T, p sdk.Plugin, file string) {
	f, err := plugintest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := schemaBeside(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if reason := c.NeedsSandbox(); reason != "" {
			t.Logf("%s:%d: %q is for the sandbox: it wants %s", file, c.Line, c.Name, reason)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			for _, failure := range attempt(t, p, c, config) {
				t.Errorf("%s:%d: %s", file, c.Line, failure)
			}
		})
	}
}

// schemaBeside returns the schema of the plugin's config; one that takes everything where
// there is no manifest.
func schemaBeside(file string) (*schema.Schema, error) {
	path := filepath.Join(filepath.Dir(file), "plugin.yaml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &schema.Schema{}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := plugin.ParseManifest(path, data)
	if err != nil {
		return nil, err
	}
	return m.Config, nil
}

// attempt carries out a case in a bubble, and says what is not as the case wants it.
func attempt(t *testing.T, p sdk.Plugin, c *plugintest.Case, s *schema.Schema) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		world := plugintest.NewNative(c)
		config, err := s.Apply(c.ConfigJSON())
		var handler probe.Handler
		if err == nil {
			handler, err = sdk.Native(p).Prepare(config, c.Target)
		}
		if err != nil {
			failures = world.Check(probe.Outcome{}, plugintest.ConfigError(err), 0)
			return
		}
		ctx := sdk.WithHost(t.Context(), sdk.Host{
			Dial: world.DialContext, Handshake: world.Handshake, RoundTrip: world.RoundTrip,
			DNSServers: world.DNSServers(), KV: world.KV,
		})
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		start := time.Now()
		out, err := handler.Probe(ctx, world.Request())
		failures = world.Check(out, err, time.Since(start))
	})
	return failures
}
