package plugintest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/plugintest/testdata/asker/check"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk/sdktest"
)

const askerCases = "testdata/asker/asker_test.yaml"

// built returns a function that builds a program once and returns its path. It runs go build, or
// go test for a name that ends in .test. The race detector is never on, so that all runs share the
// build cache.
func built(name string, env []string, args ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(scratch, name)
		command := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path}
		if strings.HasSuffix(name, ".test") {
			command[0] = "test"
		}
		cmd := exec.Command("go", append(command, args...)...)
		cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, text)
		}
		return path, os.Chmod(path, 0o755) // with any umask: files that others can write to are not run
	})
}

var (
	askerProgram = built("asker", nil, "./testdata/asker")
	askerModule  = built("asker.wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared", "./testdata/asker")
)

// program installs a program as a plugin, with a manifest beside it, and returns its path.
func program(t *testing.T, built func() (string, error), name string, manifest []byte) string {
	t.Helper()
	from, err := built()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), plugin.ProcessPrefix+name)
	if err := errors.Join(os.Link(from, path), os.WriteFile(path+".yaml", manifest, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func askerManifest(t *testing.T) []byte { return read(t, "testdata/asker/plugin.yaml") }

// askerProcess returns the path of testdata/asker as a process.
func askerProcess(t *testing.T) string {
	t.Helper()
	return program(t, askerProgram, "asker", askerManifest(t))
}

// askerGuest returns the path of testdata/asker as a guest.
func askerGuest(t *testing.T) string {
	t.Helper()
	built, err := askerModule()
	if err != nil {
		t.Fatal(err)
	}
	module, err := plugin.Embed(read(t, built), askerManifest(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "asker.wasm")
	if err := errors.Join(os.WriteFile(path, module, 0o600), precompile(path, askerCases)); err != nil {
		t.Fatal(err)
	}
	return path
}

func startProcess(ctx context.Context, found plugin.Found, env []string) (plugintest.Program, error) {
	return process.Load(ctx, process.Config{Env: env, StartTimeout: time.Minute, Pause: time.Millisecond, MaxPause: time.Millisecond}, found)
}

func judged(t *testing.T, report *plugintest.Report) {
	t.Helper()
	for _, r := range report.Results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK() {
				t.Errorf("%q\n%s%q", r.Failures, r.Diff, r.Trace)
			}
		})
	}
}

// TestCasesPassAsGuestProcessAndNative runs one test file with three builds of one source.
func TestCasesPassAsGuestProcessAndNative(t *testing.T) {
	t.Parallel()
	f, err := plugintest.Load(askerCases)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("guest", func(t *testing.T) {
		t.Parallel()
		judged(t, run(t, f, plugintest.Config{Plugin: askerGuest(t), CasesOnly: true}))
	})
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		report := run(t, f, plugintest.Config{Plugin: askerProcess(t), Process: startProcess})
		judged(t, report)
		left := 0
		for _, r := range report.Results {
			if r.LeftOut != "" {
				left++
			}
		}
		if want := len(f.Cases) + 6; len(report.Results) != want || left != 4 {
			t.Errorf("%d results, %d left out; want %d, and 4 checks left out", len(report.Results), left, want)
		}
	})
	t.Run("process without a guide", func(t *testing.T) {
		t.Parallel()
		report := run(t, f, plugintest.Config{Plugin: askerProcess(t), Process: unguided, CasesOnly: true})
		judged(t, report)
		left := 0
		for _, r := range report.Results {
			if r.LeftOut != "" {
				left++
			}
		}
		if left == 0 || left > len(f.Cases)*2/3 {
			t.Errorf("%d of %d cases are left out", left, len(f.Cases))
		}
	})
	t.Run("native", func(t *testing.T) {
		t.Parallel()
		sdktest.Run(t, check.Plugin{}, askerCases)
	})
}

// loadFor writes cases for the plugin at path, and loads them.
func loadFor(t *testing.T, path, cases string) *plugintest.File {
	t.Helper()
	file := filepath.Join(t.TempDir(), "some_test.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: " + path + "\ndefaults: {timeout: 300ms}\ncases:\n" + cases
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := plugintest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestProcessReportsFailures(t *testing.T) {
	t.Parallel()
	path := askerProcess(t)
	const request = "request: {target: {host: db, port: 1}"
	for text, want := range map[string]string{
		"- {name: a, " + request + "}, want: {result: success}}":                                                                                                               "the plugin dials tcp://db:1, for which host.net has no peer",
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, behaviour: refuse}]}, want: {result: success}}":                                                         "+result: failure",
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, script: [recv: {text: x}]}]}, want: {result: failure}}":                                                 `got "hello\n", want "x"`,
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, script: [{send: {text: \"a\\n\"}}, {recv: {text: \"hello\\nbye\\nbye\"}}]}]}, want: {result: success}}": `still waits for "hello\nbye\nbye"; got "hello\nbye\n"`,
		"- {name: a, " + request + ", config: {do: crash}}, want: {result: failure}}":                                                                                          "+result: error(trap)",
		"- {name: a, timeout: 1200ms, " + request + ", config: {do: deaf}}, want: {result: failure, virtualTime: 1ms}}":                                                        "+virtualTime: ",
		"- {name: a, " + request + ", config: {say: 1}}, host: {net: [{dial: tcp://db:1}]}, want: {result: success}}":                                                          "+result: error(config)",
		"- {name: a, " + request + ", config: {network: udp}}, host: {net: [{dial: udp://db:1, behaviour: timeout}]}, want: {result: warning}}":                                "+message: timed out after 300ms",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			report, err := plugintest.Run(t.Context(), loadFor(t, path, text), plugintest.Config{CasesOnly: true, Process: startProcess})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := plugintest.Write(&out, "table", []*plugintest.Report{report}); err != nil {
				t.Fatal(err)
			}
			if report.OK() || !strings.Contains(out.String(), want) {
				t.Errorf("%s\ngot %s, want %q in it", text, out.String(), want)
			}
		})
	}
}

// TestProcessFloodedListenerEnds fills the listener's queue, so that its last datagram does not fit.
func TestProcessFloodedListenerEnds(t *testing.T) {
	t.Parallel()
	f := loadFor(t, askerProcess(t), "- {name: a, timeout: 10s, request: {target: {host: db, port: 1}, config: {do: flood}}, "+
		"host: {net: [{dial: udp://db:1, latency: 500ms, script: [recv: any]}]}, want: {result: success, message: all sent}}")
	judged(t, run(t, f, plugintest.Config{CasesOnly: true, Process: startProcess}))
}

// TestListenerReceivesAllBeforeItEnds checks that datagrams sent before the end are received. The
// latency of the first is longer than the listener waits for the last.
func TestListenerReceivesAllBeforeItEnds(t *testing.T) {
	t.Parallel()
	send := func(target probe.Target) (out probe.Outcome, err error) {
		conn, err := net.Dial("udp", net.JoinHostPort(target.Host, strconv.Itoa(target.Port)))
		if err != nil {
			return out, err
		}
		defer conn.Close()
		for _, text := range []string{"a", "b", "c"} {
			if _, err := conn.Write([]byte(text)); err != nil {
				return out, err
			}
		}
		return probe.Outcome{Result: probe.Success}, nil
	}
	f := loadFor(t, askerProcess(t), "- {name: a, timeout: 10s, request: {target: {host: db, port: 1}}, "+
		"host: {net: [{dial: udp://db:1, latency: 1500ms, script: [recv: {text: abc}]}]}, want: {result: success}}")
	cfg := plugintest.Config{CasesOnly: true, Process: func(context.Context, plugin.Found, []string) (plugintest.Program, error) {
		return inTest{ask: send}, nil
	}}
	judged(t, run(t, f, cfg))
}

// inTest is a plugin whose handlers call ask with their target.
type inTest struct {
	probe.HandlerFunc // nil
	ask               func(probe.Target) (probe.Outcome, error)
}

func (p inTest) Prepare(_ []byte, target probe.Target) (probe.Handler, error) {
	return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return p.ask(target) }), nil
}

func (inTest) Close() error { return nil }

// TestRefusedPortStaysReserved checks that no other program can listen at a port that refuses.
func TestRefusedPortStaysReserved(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "udp"} {
		ask := func(target probe.Target) (probe.Outcome, error) {
			at := net.JoinHostPort(target.Host, strconv.Itoa(target.Port))
			if err := listen(network, at); err == nil {
				return probe.Outcome{Output: "the port is free"}, nil
			}
			conn, err := net.Dial(network, at)
			if network == "udp" && err == nil {
				defer conn.Close()
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
				_, _ = conn.Write([]byte("x"))
				_, err = conn.Read(make([]byte, 1))
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return probe.Outcome{Output: fmt.Sprintf("the port answers: %v, %v", conn, err)}, nil
			}
			return probe.Outcome{Result: probe.Failure, Output: "refused"}, nil
		}
		f := loadFor(t, askerProcess(t), "- {name: "+network+", timeout: 20s, request: {target: {host: db, port: 1}}, "+
			"host: {net: [{dial: "+network+"://db:1, behaviour: refuse}]}, want: {result: failure, message: refused}}")
		cfg := plugintest.Config{CasesOnly: true, Process: func(context.Context, plugin.Found, []string) (plugintest.Program, error) {
			return inTest{ask: ask}, nil
		}}
		judged(t, run(t, f, cfg))
	}
}

// listen listens at an address for a moment, and returns the error if it cannot.
func listen(network, at string) error {
	if network == "udp" {
		conn, err := net.ListenPacket(network, at)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	ln, err := net.Listen(network, at)
	if err != nil {
		return err
	}
	return ln.Close()
}

// unguided starts a process without the guide that tells it where to dial.
func unguided(ctx context.Context, found plugin.Found, _ []string) (plugintest.Program, error) {
	return startProcess(ctx, found, nil)
}

func TestProcessLeavesOutUnservableCases(t *testing.T) {
	t.Parallel()
	path := askerProcess(t)
	f := loadFor(t, path, `
- {name: a, request: {target: {host: db, port: 1}}, host: {net: [{dial: tcp://other:1}]}, want: {result: success}}
- {name: b, want: {result: failure, denied: [x]}}
- {name: c, want: {result: error(memory)}}
`)
	report, err := plugintest.Run(t.Context(), f, plugintest.Config{CasesOnly: true, Process: unguided})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"line 7: tcp://other:1 is not at the target, and this process dials by itself",
		"a process is in no sandbox: denials",
		"a process is in no sandbox: error(memory)",
	} {
		if r := report.Results[i]; r.LeftOut != want || !report.OK() {
			t.Errorf("%s: got %q %q, want it left out: %s", r.Name, r.LeftOut, r.Failures, want)
		}
	}
	for format, want := range map[string]string{
		"table": "0 passed, 0 failed, 3 left out", "tap": " # SKIP a process is in no sandbox: denials", "junit": "<skipped message=", "json": `"leftOut": `,
	} {
		var out bytes.Buffer
		if err := plugintest.Write(&out, format, []*plugintest.Report{report}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, %s; want %q in it", err, out.String(), want)
		}
	}
}

func TestRunProcessThatDoesNotStartFails(t *testing.T) {
	t.Parallel()
	f, err := plugintest.Load(askerCases)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prober-plugin-asker")
	if err := os.WriteFile(path, []byte("#!/bin/false\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := plugintest.Config{Plugin: path, Process: startProcess, Run: regexp.MustCompile("none")}
	if _, err := plugintest.Run(t.Context(), f, cfg); err == nil || !strings.Contains(err.Error(), "prober-plugin-asker.yaml, is not beside it") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path+".yaml", askerManifest(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plugintest.Run(t.Context(), f, cfg); err == nil || !strings.Contains(err.Error(), `plugin "asker"`) {
		t.Errorf("got %v", err)
	}
	cfg.Process = nil
	if _, err := plugintest.Run(t.Context(), f, cfg); err == nil || !strings.Contains(err.Error(), "is a program, which this test does not start") {
		t.Errorf("got %v", err)
	}
}

// TestProcessConformanceFails takes about 10 s: deadlines of processes pass in real time, and each is
// followed by the second in which a process may close its connections.
func TestProcessConformanceFails(t *testing.T) {
	t.Parallel()
	path := askerProcess(t)
	manifest := strings.Replace(string(askerManifest(t)), "properties:", "properties:\n      crash: {type: string}", 1)
	if err := os.WriteFile(path+".yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	f := loadFor(t, path, "- {name: a, request: {target: {host: db, port: 1}, config: {do: hold}}, host: {net: [{dial: tcp://db:1}]}, want: {result: failure}}")
	report, err := plugintest.Run(t.Context(), f, plugintest.Config{Process: startProcess, Run: regexp.MustCompile("^conformance: (a bad config|the deadline)")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`config {"crash":"xxxx`, "half-open: still holds its connection 1s after the deadline"} {
		if got := strings.Join(report.Results[i].Failures, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", report.Results[i].Name, got, want)
		}
	}
}
