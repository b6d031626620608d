// Package sdktest tests a plugin in `go test`: natively, for coverage and debuggers, and as a
// guest. It runs the *_test.yaml files that `prober plugin test` runs. Read [Suite] first.
package sdktest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// Run runs the cases of the files natively, each in a subtest with its name. Without files it runs the
// files in the working folder and below. The config of a case is validated with the schema of the
// plugin.yaml beside its file, if there is one.
//
// The network, DNS, HTTP and KV are simulated. An attempt runs in a bubble of testing/synctest, where time
// only passes while all goroutines wait, so the plugin must use the network of the SDK. Denials and limits
// of memory exist only in the sandbox, so they are not checked. A case with no other expectation is not
// run, and the test logs that.
func Run(t *testing.T, p sdk.Plugin, files ...string) {
	t.Helper()
	eachFile(t, files, func(t *testing.T, file string) { runFile(t, p, file) })
}

// eachFile runs the files, or those in the working folder and below. Several files run in subtests.
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
	m, err := manifestBeside(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if reason := c.NeedsSandbox(); reason != "" {
			t.Logf("%s:%d: %q needs the sandbox: it wants %s", file, c.Line, c.Name, reason)
			continue
		}
		if c.HasCommands() {
			t.Logf("%s:%d: %q has a process as a peer, which a bubble does not wait for", file, c.Line, c.Name)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			for _, failure := range attempt(t, p, c, m) {
				t.Errorf("%s:%d: %s", file, c.Line, failure)
			}
		})
	}
}

// manifestBeside returns the manifest beside a file. If there is none, it returns one that accepts every config
// and requests every capability.
func manifestBeside(file string) (*plugin.Manifest, error) {
	path := filepath.Join(filepath.Dir(file), "plugin.yaml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		m := &plugin.Manifest{Config: &schema.Schema{}}
		for _, name := range plugin.CapabilityNames() {
			m.Requests = append(m.Requests, plugin.Request{Capability: name})
		}
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	return plugin.ParseManifest(path, data)
}

// featuresOf returns the capabilities that a plugin has if all of its requests are granted.
func featuresOf(m *plugin.Manifest) []string {
	return slices.DeleteFunc(plugin.CapabilityNames(), func(name string) bool {
		capability, _ := plugin.CapabilityNamed(name)
		requests := func(r plugin.Request) bool { return r.Capability == name }
		return capability.Grant != "" && !slices.ContainsFunc(m.Requests, requests)
	})
}

// attempt runs a case in a bubble, and returns the differences from its expected result.
func attempt(t *testing.T, p sdk.Plugin, c *plugintest.Case, m *plugin.Manifest) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		world := plugintest.NewNative(c)
		config, err := m.Config.Apply(c.ConfigJSON())
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
			DNSServers: world.DNSServers(), KV: world.KV, Echo: echo(world), Features: featuresOf(m),
		})
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		start := time.Now()
		out, err := handler.Probe(ctx, world.Request())
		failures = world.Check(out, err, time.Since(start))
	})
	return failures
}
