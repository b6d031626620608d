package plugintest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/loopback"
	"github.com/daeace23/prober/plugin/plugintest/testdata/protocols/client"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// protocolsModule builds the guest that talks twelve protocols.
var protocolsModule = built("protocols.wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared", "./testdata/protocols")

const protocolsFile = "testdata/protocols/protocols_test.yaml"

// protocols returns the path of the guest with its manifest, and its cases.
func protocols(t *testing.T) (module string, f *plugintest.File) {
	t.Helper()
	built, err := protocolsModule()
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("testdata/protocols/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if code, err = plugin.Embed(code, manifest); err != nil {
		t.Fatal(err)
	}
	module = filepath.Join(t.TempDir(), "protocols.wasm")
	if err := os.WriteFile(module, code, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = plugintest.Load(protocolsFile); err != nil {
		t.Fatal(err)
	}
	return module, f
}

// TestProtocolsPassWithEverySeed runs each case four times. The position of a case is its seed, so each
// attempt of the guest has other nonces.
func TestProtocolsPassWithEverySeed(t *testing.T) {
	t.Parallel()
	module, f := protocols(t)
	if len(f.Cases) != 12 {
		t.Errorf("%d cases, want twelve protocols", len(f.Cases))
	}
	if race {
		t.Skip("the interpreter needs minutes under the race detector; TestProtocolsPassWithRandomNonces runs the peers")
	}
	results := run(t, f, plugintest.Config{Plugin: module, Patience: time.Second}).Results
	f.Cases = slices.Concat(f.Cases[1:], f.Cases, f.Cases)
	for _, r := range slices.Concat(results, run(t, f, plugintest.Config{Plugin: module, CasesOnly: true}).Results) {
		if !r.OK() {
			t.Errorf("%s: %q\n%s", r.Name, r.Failures, r.Diff)
		}
	}
}

// TestProtocolsPassWithRandomNonces runs the clients natively, with nonces that have no seed.
func TestProtocolsPassWithRandomNonces(t *testing.T) {
	t.Parallel()
	f, err := plugintest.Load(protocolsFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			for range 20 {
				if failures := judgeClient(t, c); len(failures) > 0 {
					t.Fatal(strings.Join(failures, "\n"))
				}
			}
		})
	}
}

// TestReplayGeneratesRecordedNonces records each protocol at real sockets, with random nonces.
func TestReplayGeneratesRecordedNonces(t *testing.T) {
	t.Parallel()
	if race {
		t.Skip("the guest takes minutes to compile under the race detector")
	}
	module, f := protocols(t)
	ca, err := cert.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			if strings.Contains(c.Name, "STARTTLS") {
				return // the host does not know the authority of the sockets
			}
			l, err := loopback.Listen(c.Setup(), 1, ca)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			path, out := record(t, attempt{module: module, target: l.Target, config: string(c.Config)})
			if out.Result != probe.Success {
				t.Fatalf("recorded %v", out)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time, it follows a case with another time
				if r := replayed(t, module, path); !r.OK() {
					t.Errorf("%q\n%s%s", r.Failures, r.Diff, text)
				}
			}
			captures := strings.Contains(string(text), "as: nonce1") && strings.Contains(string(text), "${nonce1}")
			if want := slices.Contains(sentBack, c.Name); captures != want {
				t.Errorf("captures a nonce: %v, want %v\n%s", captures, want, text)
			}
			other := regexp.MustCompile(`(?m)^seed: .*$`).ReplaceAll(text, []byte("seed: 1"))
			if err := os.WriteFile(path, other, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, want := replayed(t, module, path).OK(), slices.Contains(withoutSeed, c.Name); got != want {
				t.Errorf("with another seed: passes %v, want %v\n%s", got, want, text)
			}
		})
	}
}

// sentBack has the protocols whose peers send bytes back that the client has read as random bytes.
var sentBack = []string{"SCRAM-SHA-256 of PostgreSQL", "STUN", "SNMP", "Kafka", "LDAP", "NTP", "MQTT"}

// withoutSeed has the protocols whose sessions also fit other nonces: nothing else in them is random, and
// the answers have no checksum of it.
var withoutSeed = []string{"DNS", "SNMP", "Kafka", "LDAP", "NTP"}

// replayed returns the result of a case that replays a session.
func replayed(t *testing.T, module, session string) *plugintest.Result {
	t.Helper()
	f := load(t, "- {name: before, want: {result: failure}, request: {target: {host: a, port: 1}}, host: {net: [{dial: 'udp://a:1', behaviour: refuse}]}}\n- {name: a session, replay: "+session+"}\n")
	return &run(t, f, plugintest.Config{Plugin: module, CasesOnly: true}).Results[1]
}

// judgeClient runs a case with the native clients in a bubble, and returns its failures.
func judgeClient(t *testing.T, c *plugintest.Case) (failures []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := plugintest.NewNative(c)
		ctx := sdk.WithHost(t.Context(), sdk.Host{Dial: n.DialContext, Handshake: n.Handshake})
		handler, err := sdk.Native(sdk.Func(client.Probe)).Prepare(c.ConfigJSON(), c.Target)
		if err != nil {
			failures = n.Check(probe.Outcome{}, plugintest.ConfigError(err), 0)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		start := time.Now()
		out, err := handler.Probe(ctx, n.Request())
		failures = n.Check(out, err, time.Since(start))
	})
	return failures
}
