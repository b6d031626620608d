//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// prober runs the built program in dir and returns its output. It must exit with code.
func prober(t *testing.T, dir string, code int, args ...string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(bin, "prober"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, toolchains(t)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("prober %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, text)
	}
	return string(text)
}

// TestNewInEveryLanguage makes a project in each language, builds it, runs its tests, and probes a
// server with it.
func TestNewInEveryLanguage(t *testing.T) {
	address := saying(t, "220 hello\r\n")
	for _, c := range []struct {
		lang    string
		source  string
		mistake string // appended to the source
		said    string // part of the compiler's error
	}{
		{"go", "main.go", "var x int = y\n", ".go:61:13: undefined: y"},
		{"rust", "src/lib.rs", "fn broken() -> u8 { y }\n", "cannot find value `y` in this scope"},
		{"c", "main.c", "int x = y;\n", "use of undeclared identifier 'y'"},
		{"assemblyscript", "index.ts", "let x: i32 = y;\n", "Cannot find name 'y'"},
		{"wat", "demo.wat", ")\n", "demo.wat:"},
	} {
		t.Run(c.lang, func(t *testing.T) {
			dir := t.TempDir()
			prober(t, dir, 0, "plugin", "new", "demo", "--lang", c.lang)
			for _, file := range []string{".gitignore", "README.md", "plugin.yaml", "demo_test.yaml", c.source} {
				if _, err := os.Stat(filepath.Join(dir, "demo", file)); err != nil {
					t.Error(err)
				}
			}
			built := prober(t, dir, 0, "plugin", "build", "demo")
			if !strings.Contains(built, "needs no grant beyond its target\n") || strings.Contains(built, "warning") {
				t.Errorf("plugin build says\n%s", built)
			}
			if found := prober(t, dir, 0, "plugin", "vet", "demo"); found != "" {
				t.Errorf("plugin vet finds\n%s", found)
			}
			tested := prober(t, dir, 0, "plugin", "test", "demo")
			if !strings.Contains(tested, " passed, 0 failed\n") {
				t.Errorf("plugin test says\n%s", tested)
			}
			if c.lang != "go" { // skipped for Go: it takes the interpreter long, and make test runs it
				prober(t, dir, 0, "plugin", "test", "--matrix", "demo")
			}
			if measured := prober(t, dir, 0, "plugin", "bench", "--time", "10ms", "demo"); strings.Count(measured, " success\n") != 3 {
				t.Errorf("plugin bench says\n%s", measured)
			}
			testRecorded(t, dir, address)
			module := filepath.Join(dir, "demo", "demo.wasm")
			v, code := probePlugin(t, module, address, `{"expect":"220"}`)
			want(t, v, code, "success", "220 hello")
			v, code = probePlugin(t, module, freeAddress(t), `{}`)
			want(t, v, code, "failure", "refused")
			testMistake(t, dir, c.source, c.mistake, c.said)
		})
	}
}

// testRecorded records a session with a real server, and replays it in a case.
func testRecorded(t *testing.T, dir, address string) {
	t.Helper()
	prober(t, dir, 0, "plugin", "run", "demo", "--target", address, "--timeout", "30s", "--record", "demo/testdata/hello.yaml")
	write(t, dir, "demo/recorded_test.yaml", `apiVersion: prober.dev/v1
kind: PluginTest
plugin: ./demo.wasm
cases:
- name: hello
  replay: testdata/hello.yaml
  want: {result: success, message: 220 hello}
`)
	prober(t, dir, 0, "plugin", "test", "demo/recorded_test.yaml", "--run", "hello")
}

// testMistake breaks the source of a project. The compiler must print the position, and the old module must
// remain.
func testMistake(t *testing.T, dir, source, mistake, said string) {
	t.Helper()
	module := filepath.Join(dir, "demo", "demo.wasm")
	before, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "demo", source), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(mistake); err != nil {
		t.Fatal(err)
	}
	if text := prober(t, dir, 1, "plugin", "build", "demo"); !strings.Contains(text, said) {
		t.Errorf("no %q in\n%s", said, text)
	}
	if after, err := os.ReadFile(module); err != nil || string(after) != string(before) {
		t.Errorf("the module has changed: %v", err)
	}
}
