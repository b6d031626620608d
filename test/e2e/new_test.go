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
	return proberWith(t, dir, nil, code, args...)
}

// proberWith is prober with more variables.
func proberWith(t *testing.T, dir string, env []string, code int, args ...string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(bin, "prober"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(toolchains(t), env...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("prober %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, text)
	}
	return string(text)
}

// TestNewInEveryLanguage makes a project in each language, builds it, runs its tests, and probes a
// server with it.
func TestNewInEveryLanguage(t *testing.T) {
	t.Parallel()
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
		{"cpp", "main.cpp", "int x = y;\n", "use of undeclared identifier 'y'"},
		{"assemblyscript", "index.ts", "let x: i32 = y;\n", "Cannot find name 'y'"},
		{"wat", "demo.wat", ")\n", "demo.wat:"},
	} {
		t.Run(c.lang, func(t *testing.T) {
			dir := t.TempDir()
			testNew(t, dir, c.lang, "line")
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

// TestNewOfEveryKind does so for the other kinds. make test has them in Go.
func TestNewOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"rust", "c", "cpp", "assemblyscript"} {
		for _, kind := range []string{"http", "udp", "tls", "command"} {
			if lang == "assemblyscript" && kind == "command" {
				continue // has no WASI
			}
			t.Run(lang+"/"+kind, func(t *testing.T) { testNew(t, t.TempDir(), lang, kind) })
		}
	}
}

// testNew makes the project demo in dir, builds it, and runs all its tests.
func testNew(t *testing.T, dir, lang, kind string) {
	t.Helper()
	prober(t, dir, 0, "plugin", "new", "demo", "--lang", lang, "--kind", kind)
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
	switch lang {
	case "rust": // Debian's cargo, as of test/e2e/run
		tool(t, dir, "cargo test --quiet && cargo clippy --quiet --no-deps --all-targets -- --deny warnings")
		t.Run("rustc alone", func(t *testing.T) {
			alone := t.TempDir()
			if err := os.Symlink("/usr/bin/rustc", filepath.Join(alone, "rustc")); err != nil {
				t.Fatal(err)
			}
			env := []string{"RUSTC=" + filepath.Join(alone, "rustc")}
			if built := proberWith(t, dir, env, 0, "plugin", "build", "demo"); strings.Contains(built, "Compiling") {
				t.Errorf("cargo has run\n%s", built)
			}
		})
	case "assemblyscript":
		tool(t, dir, "npm run build && npm test")
	case "c", "cpp": // the flags that clangd reads
		tool(t, dir, "clang -Werror $(cat compile_flags.txt) -c -o /dev/null main."+lang)
	}
}

// tool runs a command of a language in the project demo.
func tool(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `PATH=/usr/bin:"$PATH"; `+command)
	cmd.Dir, cmd.Env = filepath.Join(dir, "demo"), toolchains(t)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, text)
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
