package plugincmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/plugin"
)

const (
	checkedManifest = clitest.Manifest + "config: {schema: {type: object, properties: {a: {type: string}}, additionalProperties: false}}\n"
	checkedCases    = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./demo.wasm\ncases:\n- name: all is well\n  request: {target: {host: a, port: 1}}\n  want: {result: success}\n"
)

// names is a custom section with names of functions.
const names = "\x00\x05\x04name"

// writeChecked writes the project of a plugin that passes each step, with changes of its manifest.
func writeChecked(t *testing.T, dir string, changes ...string) {
	t.Helper()
	manifest := strings.NewReplacer(changes...).Replace(checkedManifest)
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": manifest, "demo.wasm": clitest.Embed(t, clitest.ModuleCode(0)+names, manifest), "demo_test.yaml": checkedCases,
	})
}

func TestCheckPasses(t *testing.T) {
	t.Chdir(t.TempDir())
	writeChecked(t, "demo")
	code, stdout, stderr := clitest.Run(nil, "plugin", "check", "demo")
	for _, want := range []string{"  ok    load", "  ok    vet", "  ok    cases        4 cases passed", "  ok    conformance", "  ok    budgets      module 0.2 KiB/32.0 MiB  memory 64.0 KiB/32.0 MiB  fuel ", "  -     changes      --against names"} {
		if code != 0 || !strings.Contains(squeezed(stdout), squeezed(want)) {
			t.Errorf("exit code %d\n%s%s\nwant %q", code, stdout, stderr, want)
		}
	}
	code, stdout, _ = clitest.Run(nil, "plugin", "check", "demo/demo.wasm", "-o", "json")
	var report struct {
		OK     bool
		Name   string
		Digest string
		Steps  []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || !report.OK || report.Name != "demo" || len(report.Steps) != 6 || report.Digest == "" {
		t.Errorf("exit code %d, %v\n%s", code, err, stdout)
	}
}

func TestCheckFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		prep func(t *testing.T)
		want []string
	}{
		{"case", func(t *testing.T) {
			clitest.WriteTree(t, "demo", map[string]string{"demo_test.yaml": strings.Replace(checkedCases, "success", "failure", 1)})
		}, []string{
			"FAIL  cases        0 of 4 cases passed",
			"cases: demo/demo_test.yaml:5: all is well (compiler/reset, compiler/fresh, interpreter/reset, interpreter/fresh): the answer differs from the wanted one\n    --- want\n    +++ got\n    -result: failure\n    +result: success\n",
			`plugin "demo" did not pass: cases`, "hint: `prober plugin test` shows each call",
		}},
		{"test file", func(t *testing.T) {
			clitest.WriteTree(t, "demo", map[string]string{"demo_test.yaml": "kind: Other\n"})
		}, []string{"FAIL  cases", "demo/demo_test.yaml:1: kind"}},
		{"vet", func(t *testing.T) {
			if err := os.Remove("demo/demo_test.yaml"); err != nil {
				t.Fatal(err)
			}
		}, []string{"FAIL  vet", "vet: demo/demo_test.yaml: is missing: there are no test cases", "-     cases", "memory and fuel need a test case"}},
		{"load", func(t *testing.T) {
			clitest.WriteTree(t, "demo", map[string]string{"demo.wasm": clitest.Embed(t, "\x00asm\x01\x00\x00\x00", checkedManifest)})
		}, []string{"FAIL  load", `plugin "demo" did not pass: load`}},
		{"budget", func(t *testing.T) {
			writeChecked(t, "demo", "config:", "budgets: {module: 100, memory: 1Ki, fuel: 1, start: 1ns}\nconfig:")
		}, []string{"FAIL  budgets", "budgets: module 0.3 KiB/0.1 KiB", "budgets: memory 64.0 KiB/1.0 KiB", "budgets: fuel ", "budgets: start "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeChecked(t, "demo")
			tc.prep(t)
			code, stdout, stderr := clitest.Run(nil, "plugin", "check", "demo")
			for _, want := range tc.want {
				if code != 1 || !strings.Contains(squeezed(stdout+stderr), squeezed(want)) {
					t.Errorf("exit code %d\n%s%s\nwant %q", code, stdout, stderr, want)
				}
			}
		})
	}
}

func TestCheckAgainstOlderVersion(t *testing.T) {
	t.Chdir(t.TempDir())
	host := hub(t, nil)
	writeChecked(t, "old")
	for _, args := range [][]string{{"push", "old", host + "/demo:1.0.0", "--plain-http"}, {"save", "old", "-o", "layout"}, {"save", "old", "-o", "old.tar"}} {
		if code, _, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...); code != 0 {
			t.Fatal(stderr)
		}
	}
	for _, tc := range []struct {
		name    string
		changes []string
		code    int
		want    []string
	}{
		{"breaking with a minor version", []string{"1.0.0", "1.1.0", "{a: {type: string}}", "{b: {type: string}}"}, 1,
			[]string{"changes: breaking changes from 1.0.0 to 1.1.0 need 2.0.0", "changes: config.a: was removed", "changes from 1.0.0 to 1.1.0: they need a major version", "  breaking  config.a  was removed", "  minor     config.b  is new"}},
		{"breaking with a major version", []string{"1.0.0", "2.0.0", "{a: {type: string}}", "{b: {type: string}}"}, 0, []string{"  ok    changes      2 changes since 1.0.0"}},
		{"addition", []string{"1.0.0", "1.0.1", "{a: {type: string}}", "{a: {type: string}, b: {}}"}, 0, []string{"1 change since 1.0.0; additions since 1.0.0 suggest 1.1.0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writeChecked(t, "next", tc.changes...)
			places := []string{"old", "old/demo.wasm", "layout", "old.tar", host + "/demo:1.0.0", host + "/demo"}
			if tc.code == 0 {
				places = places[:1]
			}
			for _, against := range places {
				code, stdout, stderr := clitest.Run(nil, "plugin", "check", "next", "--against", against, "--plain-http")
				for _, want := range tc.want {
					if code != tc.code || !strings.Contains(squeezed(stdout), squeezed(want)) {
						t.Errorf("%s: exit code %d\n%s%s\nwant %q", against, code, stdout, stderr, want)
					}
				}
			}
			code, _, stderr := clitest.Run(nil, "plugin", "push", "next", host+"/demo:next", "--plain-http")
			if code != tc.code || code != 0 && !strings.Contains(stderr, "hint: nothing was pushed; --skip-check pushes it anyway") {
				t.Errorf("push: exit code %d, %s", code, stderr)
			}
		})
	}
	code, stdout, _ := clitest.Run(nil, "plugin", "check", "old", "--against", host+"/none", "--plain-http")
	if code != 0 || !strings.Contains(stdout, "there is no older version in "+host+"/none") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	code, _, stderr := clitest.Run(nil, "plugin", "check", "old", "--against", "nosuch")
	if code != 64 || !strings.Contains(stderr, "--against: reference \"nosuch\"") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// squeezed returns text with single spaces.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// inspected returns the state of the report that inspect shows, in its table and its JSON.
func inspected(t *testing.T, args ...string) (line, state string) {
	t.Helper()
	code, stdout, stderr := clitest.Run(nil, append([]string{"plugin", "inspect"}, args...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for l := range strings.Lines(stdout) {
		if after, ok := strings.CutPrefix(l, "Check:"); ok {
			line = strings.TrimSpace(after)
		}
	}
	_, stdout, _ = clitest.Run(nil, append([]string{"plugin", "inspect", "-o", "json"}, args...)...)
	var v struct{ Check struct{ State string } }
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatal(err)
	}
	return line, v.Check.State
}

func TestReportOfPush(t *testing.T) {
	t.Chdir(t.TempDir())
	host := hub(t, nil)
	writeChecked(t, "demo")
	var pins []string
	for _, args := range [][]string{{}, {}, {"--skip-check"}} {
		code, pinned, stderr := clitest.Run(nil, append([]string{"plugin", "push", "demo", host + "/demo:1.0.0", "--plain-http"}, args...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		pins = append(pins, pinned)
		if code, _, stderr := clitest.Run(nil, "plugin", "pull", host+"/demo:1.0.0", "--plain-http"); code != 0 {
			t.Fatal(stderr)
		}
		wantLine, wantState := "passed with prober dev, says its author", "passed"
		if len(args) > 0 {
			wantLine, wantState = "skipped by its author", "skipped"
		}
		if line, state := inspected(t, "demo.wasm"); line != wantLine || state != wantState {
			t.Errorf("%q, %q", line, state)
		}
	}
	if pins[1] == pins[2] {
		t.Error("an unchecked artifact has the digest of a checked one")
	}
	clitest.WriteTree(t, ".", map[string]string{"demo.wasm.check.json": `{"ok":true,"digest":"sha256:00","prober":"\u001b[31m"}`})
	if line, state := inspected(t, "demo.wasm"); line != "the report is about other bytes" || state != "other" {
		t.Errorf("%q, %q", line, state)
	}
	clitest.WriteTree(t, ".", map[string]string{"demo.wasm.check.json": "["})
	if line, state := inspected(t, "demo.wasm"); line != "the report cannot be read" || state != "unreadable" {
		t.Errorf("%q, %q", line, state)
	}
	// A pull of an artifact without a report removes the report of the older file.
	if code, _, stderr := clitest.Run(nil, "plugin", "save", "demo", "-o", "plain.tar"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "load", "plain.tar"); code != 0 {
		t.Fatal(stderr)
	}
	checkFile(t, "demo.wasm.check.json", nil)
	if line, _ := inspected(t, filepath.Join("demo", "demo.wasm")); line != "" {
		t.Errorf("a plugin without a report: %q", line)
	}
}

func TestSignChecks(t *testing.T) {
	t.Chdir(t.TempDir())
	writeChecked(t, "demo")
	if code, _, stderr := clitest.Run(nil, "plugin", "keygen", "-o", "ops.key"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "sign", "demo", "--key", "ops.key"); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if err := os.Remove("demo/demo.wasm.sig"); err != nil {
		t.Fatal(err)
	}
	clitest.WriteTree(t, "demo", map[string]string{"demo_test.yaml": strings.Replace(checkedCases, "success", "failure", 1)})
	code, stdout, stderr := clitest.Run(nil, "plugin", "sign", "demo", "--key", "ops.key")
	if code != 1 || stdout != "" || !strings.Contains(squeezed(stderr), "FAIL cases") || !strings.Contains(stderr, "hint: it was not signed; --skip-check signs it anyway") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	checkFile(t, "demo/demo.wasm.sig", nil)
	if code, _, stderr := clitest.Run(nil, "plugin", "sign", "demo", "--key", "ops.key", "--skip-check"); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The test files of a plugin may be of a stranger: only check, which is for its author, starts their commands.
func TestOnlyCheckStartsCommandsOfCases(t *testing.T) {
	t.Chdir(t.TempDir())
	host := hub(t, nil)
	all, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(f plugin.Found) bool { return f.Manifest.Name == "redis" })
	clitest.WriteTree(t, ".", map[string]string{
		"redis.wasm": string(all[at].Module),
		"redis_test.yaml": "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./redis.wasm\ncases:\n- name: a program\n  timeout: 5s\n" +
			"  request: {target: {host: redis.internal, port: 6379}}\n" +
			"  host: {net: [{dial: 'tcp://redis.internal:6379', peer: {command: [sh, -c, 'echo yes >started']}}]}\n  want: {result: failure}\n",
	})
	plugins(t, "keygen", "-o", "ops.key")
	plugins(t, "sign", "redis.wasm", "--key", "ops.key")
	plugins(t, "push", "redis.wasm", host+"/redis:1", "--plain-http")
	checkFile(t, "started", nil)
	plugins(t, "check", "redis.wasm")
	checkFile(t, "started", []byte("yes\n"))
}
