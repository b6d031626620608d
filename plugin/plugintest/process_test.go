package plugintest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

const askerCases = "testdata/asker/asker_test.yaml"

// buildAsker builds testdata/asker as it is told and returns the path.
func buildAsker(t *testing.T, name string, env []string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, args...), "./testdata/asker")...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return path
}

func askerManifest(t *testing.T) []byte {
	t.Helper()
	manifest, err := os.ReadFile("testdata/asker/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// askerProcess is testdata/asker as a process.
func askerProcess(t *testing.T) string {
	t.Helper()
	path := buildAsker(t, "prober-plugin-asker", nil)
	if err := os.WriteFile(path+".yaml", askerManifest(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// askerGuest is testdata/asker as a guest.
func askerGuest(t *testing.T) string {
	t.Helper()
	path := buildAsker(t, "asker.wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared")
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if module, err = plugin.Embed(module, askerManifest(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startProcess(ctx context.Context, found plugin.Found) (plugintest.Program, error) {
	return process.Load(ctx, process.Config{Pause: time.Millisecond, MaxPause: time.Millisecond}, found)
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

// One source, three builds, one test file.
func TestOneFileForThreeBuilds(t *testing.T) {
	f, err := plugintest.Load(askerCases)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("guest", func(t *testing.T) {
		judged(t, run(t, f, plugintest.Config{Plugin: askerGuest(t), CasesOnly: race, Patience: time.Second}))
	})
	t.Run("process", func(t *testing.T) {
		report := run(t, f, plugintest.Config{Plugin: askerProcess(t), Process: startProcess})
		judged(t, report)
		left := 0
		for _, r := range report.Results {
			if r.LeftOut != "" {
				left++
			}
		}
		if want := len(f.Cases) + 5; len(report.Results) != want || left != 3 {
			t.Errorf("%d results, %d left out; want %d, and 3 checks that are for guests", len(report.Results), left, want)
		}
	})
	t.Run("native", func(t *testing.T) {
		text, err := exec.Command("go", "test", "-count=1", "-v", "./testdata/asker").CombinedOutput()
		if passed := bytes.Count(text, []byte("--- PASS: TestCases/")); err != nil || passed != len(f.Cases) {
			t.Errorf("%d of %d cases pass: %v\n%s", passed, len(f.Cases), err, text)
		}
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

func TestProcessCasesThatFail(t *testing.T) {
	path := askerProcess(t)
	const request = "request: {target: {host: db, port: 1}"
	for text, want := range map[string]string{
		"- {name: a, " + request + "}, want: {result: success}}":                                                                                                               "the plugin dials tcp://db:1, of which host.net says nothing",
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, behaviour: refuse}]}, want: {result: success}}":                                                         "+result: failure",
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, script: [recv: {text: x}]}]}, want: {result: failure}}":                                                 `got "hello\n", want "x"`,
		"- {name: a, " + request + "}, host: {net: [{dial: tcp://db:1, script: [{send: {text: \"a\\n\"}}, {recv: {text: \"hello\\nbye\\nbye\"}}]}]}, want: {result: success}}": `still waits for "hello\nbye\nbye"; got "hello\nbye\n"`,
		"- {name: a, " + request + ", config: {do: crash}}, want: {result: failure}}":                                                                                          "+result: error(trap)",
		"- {name: a, timeout: 2s, " + request + ", config: {do: deaf}}, want: {result: failure, virtualTime: 1ms}}":                                                            "+virtualTime: 2.0",
		"- {name: a, " + request + ", config: {say: 1}}, host: {net: [{dial: tcp://db:1}]}, want: {result: success}}":                                                          "+result: error(config)",
		"- {name: a, " + request + ", config: {network: udp}}, host: {net: [{dial: udp://db:1, behaviour: timeout}]}, want: {result: warning}}":                                "+message: timed out after 300ms",
	} {
		report, err := plugintest.Run(t.Context(), loadFor(t, path, text), plugintest.Config{CasesOnly: true, Process: startProcess})
		if err != nil {
			t.Error(err)
			continue
		}
		var out bytes.Buffer
		if err := plugintest.Write(&out, "table", []*plugintest.Report{report}); err != nil {
			t.Fatal(err)
		}
		if report.OK() || !strings.Contains(out.String(), want) {
			t.Errorf("%s\ngot %s, want %q in it", text, out.String(), want)
		}
	}
}

func TestWhatAProcessCannotBeShown(t *testing.T) {
	const target = "request: {target: {host: db, port: 1}}"
	cases := map[string]string{
		"host: {net: [{dial: tcp://other:1}]}":                                     "line 6: tcp://other:1 is not at the target, and a process dials by itself",
		"host: {net: [{dial: tls://db:1}]}":                                        "line 6: TLS is played, and a process makes it by itself",
		"host: {net: [{dial: tcp://db:1, latency: 1s}]}":                           "line 6: on loopback a connection is made at once",
		"host: {net: [{dial: tcp://db:1}, {dial: tcp://db:1, behaviour: refuse}]}": "line 6: a port of loopback is either open or not",
		"host: {dns: [{name: db, answers: [10.0.0.1]}]}":                           "a process looks names up by itself",
		"host: {http: [{match: {url: \"http://other/\"}}]}":                        "line 6: http://other/ is not at the target, and a process dials by itself",
		"host: {http: [{match: {url: \"https://db:1/\"}}]}":                        "line 6: TLS is played, and a process makes it by itself",
		"host: {http: [{match: {}, behaviour: refuse}, {match: {}}]}":              "line 6: a port of loopback is either open or not",
		"host: {net: [{dial: tcp://db:1}], http: [{match: {}}]}":                   "line 6: one port is of host.net or of host.http",
		"want: {result: failure, denied: [x]}":                                     "a process is in no sandbox: denials",
		"want: {result: error(memory)}":                                            "a process is in no sandbox: error(memory)",
		"want: {result: success, memory: {max: 8Mi}}":                              "the memory of a process is its own",
	}
	path := askerProcess(t)
	for text, want := range cases {
		if !strings.HasPrefix(text, "want") {
			text += ", want: {result: success}"
		}
		f := loadFor(t, path, "- {name: a, "+target+", "+text+"}")
		report, err := plugintest.Run(t.Context(), f, plugintest.Config{CasesOnly: true, Process: startProcess})
		if err != nil {
			t.Error(err)
			continue
		}
		if r := report.Results[0]; r.LeftOut != want || !report.OK() {
			t.Errorf("%s\ngot %q %q, want it left out: %s", text, r.LeftOut, r.Failures, want)
		}
		for format, want := range map[string]string{
			"table": "0 passed, 0 failed, 1 left out", "tap": " # SKIP " + want, "junit": "<skipped message=", "json": `"leftOut": `,
		} {
			var out bytes.Buffer
			if err := plugintest.Write(&out, format, []*plugintest.Report{report}); err != nil || !strings.Contains(out.String(), want) {
				t.Errorf("%v, %s; want %q in it", err, out.String(), want)
			}
		}
	}
}

func TestProcessesThatDoNotStart(t *testing.T) {
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
	if _, err := plugintest.Run(t.Context(), f, cfg); err == nil || !strings.Contains(err.Error(), "is a process, which this test does not start") {
		t.Errorf("got %v", err)
	}
}

func TestProcessesThatDoNotConform(t *testing.T) {
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
