package plugincmd_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// run runs `prober plugin` with args, which must succeed and print want.
func run(t *testing.T, want string, args ...string) {
	t.Helper()
	code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
	if code != 0 || !strings.Contains(stdout, want) {
		t.Fatalf("prober plugin %s: exit code %d, want %q in\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
	}
}

// goTool runs the Go toolchain in dir.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %s in the new folder: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// The check for growth is left out: it takes seconds, and is not about the new source.
func TestNewPluginBuildsAndPassesTestsWithoutModuleProxy(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "")
	for _, kind := range []string{"line", "http", "udp", "tls", "command"} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "demo")
			run(t, "made "+dir, "new", dir, "--lang", "go", "--kind", kind)
			run(t, dir+"/demo.wasm: demo 0.1.0, ", "build", dir)
			run(t, "", "vet", dir)
			run(t, " passed, 0 failed", "test", dir, "--run", "^[^c]|^certificate|^connection|^conformance: [^n]")
			goTool(t, dir, "vet", "./...")
			goTool(t, dir, "test", "./...")
		})
	}
}

// TestNewFilesOfEveryLanguageAndKind checks what no compiler does.
func TestNewFilesOfEveryLanguageAndKind(t *testing.T) {
	sources := map[string]string{
		"go": "main.go", "rust": "src/lib.rs", "c": "main.c", "cpp": "main.cpp", "c++": "main.cpp", "assemblyscript": "index.ts", "wat": "demo.wat", "python": "check.py",
	}
	checks := map[string]string{".github/workflows/ci.yml": "    - run: make check ", "Makefile": "\ncheck:", "README.md": "prober plugin check "}
	for _, lang := range slices.Sorted(maps.Keys(sources)) {
		for _, kind := range []string{"line", "http", "udp", "tls", "command", "process", "nagios"} {
			dir := filepath.Join(t.TempDir(), "demo")
			code, _, stderr := clitest.Run(nil, "plugin", "new", dir, "--lang", lang, "--kind", kind)
			if code == 64 && strings.Contains(stderr, "there is no plugin of the kind "+kind+" in ") {
				continue
			}
			source := sources[lang]
			switch lang + " " + kind {
			case "rust command":
				source = "src/main.rs"
			case "go process":
				source = "check.go"
			case "python nagios":
				source = "check_demo"
			}
			for _, file := range []string{".github/workflows/ci.yml", ".gitignore", "Makefile", "README.md", "plugin.yaml", "demo_test.yaml", source} {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Errorf("%s %s: %v", lang, kind, err)
				}
				if i := strings.Index(string(text), "{{."); i >= 0 {
					t.Errorf("%s %s: %s has %.20q", lang, kind, file, text[i:])
				}
				if want, ok := checks[file]; ok && !strings.Contains(string(text), want) {
					t.Errorf("%s %s: %s\n%s\nhas no %q", lang, kind, file, text, want)
				}
			}
		}
	}
}

// docs/plugins/without-a-sandbox.md builds the process and runs its cases.
func TestNewProcessIsCleanWithoutModuleProxy(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-trimpath") // the flags of prober's builds, so that the cache is used
	t.Setenv("CGO_ENABLED", "0")
	dir := filepath.Join(t.TempDir(), "demo")
	run(t, "made "+dir+"; next: prober plugin build "+dir+" && prober plugin test "+dir+"\n", "new", dir, "--runtime", "process")
	run(t, "", "vet", dir)
	goTool(t, dir, "vet", "./...")
}

func TestNewNagiosCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	code, stdout, stderr := clitest.Run(nil, "plugin", "new", dir, "--runtime", "nagios")
	if want := "made " + dir + "; next: prober plugin test " + dir + "\n"; code != 0 || stdout != want {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = clitest.Run(nil, "plugin", "test", dir)
	if code != 0 || !strings.Contains(stdout, "  ok  no such folder ") || !strings.Contains(stdout, "7 passed, 0 failed, 4 left out") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = clitest.Run(nil, "plugin", "check", dir)
	if code != 0 || !strings.Contains(squeezed(stdout), squeezed("  ok  conformance  2 checks passed")) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	script := filepath.Join(dir, "check_demo")
	for _, args := range [][]string{{}, {"-w", "x", "-c", "1", "/"}, {"-w", "1", "-c", "1"}, {"-x"}} {
		text, err := exec.CommandContext(t.Context(), script, args...).Output()
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 3 || !strings.HasPrefix(string(text), "UNKNOWN - usage: check_demo ") {
			t.Errorf("check_demo %q: %q, %v", args, text, err)
		}
	}
	code, _, stderr = clitest.Run(nil, "plugin", "build", dir)
	if code != 64 || !strings.Contains(stderr, "its runtime is nagios: there is nothing to build") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestAuthorMistakesHaveHints(t *testing.T) {
	dir := t.TempDir()
	const manifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"
	clitest.WriteTree(t, dir, map[string]string{
		"rust/plugin.yaml":   manifest,
		"bare/plugin.yaml":   manifest,
		"two/plugin.yaml":    manifest,
		"two/main.c":         "",
		"two/lib.rs":         "",
		"wat/plugin.yaml":    manifest,
		"wat/a.wat":          "",
		"wat/b.wat":          "",
		"ts/plugin.yaml":     manifest,
		"ts/index.ts":        "export function probe(): i32 { return 0; }",
		"wrong/plugin.yaml":  "name: 7_up\n",
		"cases/a_test.yaml":  "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./no.wasm\ncases: []\n",
		"cases2/b_test.yaml": "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./no.wasm\ncases: [{}]\n",
	})
	t.Setenv("WAT2WASM", "true")
	t.Setenv("ASC", "true")
	for _, c := range []struct {
		args string
		want string
	}{
		{"new " + dir + "/No_Name", `"No_Name" is not a valid name of a plugin`},
		{"new " + dir + "/rust", dir + "/rust already exists"},
		{"new " + dir + "/x --lang perl", `unknown word "perl"; known: go, rust, c, cpp, assemblyscript, wat, python, c++`},
		{"new " + dir + "/x --lang rust --runtime process", "there is no plugin of the kind process in rust"},
		{"new " + dir + "/x --lang go --runtime nagios", "there is no plugin of the kind nagios in go"},
		{"new " + dir + "/x --kind line --runtime process", "--runtime process and --kind line"},
		{"new " + dir + "/x --runtime container", `unknown word "container"; known: wasm, process, nagios`},
		{"build --runtime process " + dir + "/wat", "prober builds processes of Go and Python, not of WAT"},
		{"new " + dir + "/no/such", "no such file or directory"},
		{"build " + dir, "plugin.yaml: no such file or directory"},
		{"build " + dir + "/bare", dir + "/bare: there is no source that prober knows how to build"},
		{"build " + dir + "/two", dir + "/two: lib.rs says Rust, and main.c says C"},
		{"build " + dir + "/wat", dir + "/wat: there are several .wat files, and no demo.wat"},
		{"build " + dir + "/ts", dir + "/ts: index.ts does not import the SDK"},
		{"build " + dir + "/wrong", dir + `/wrong/plugin.yaml:1: name: "7_up" is not a name`},
		{"test", ".: no *_test.yaml file is there"},
		{"test " + dir + "/rust", "no *_test.yaml file is there"},
		{"test " + dir + "/cases", "/cases/a_test.yaml: plugin "},
		{"test " + dir + "/cases2", "/cases2/b_test.yaml:4: cases[0].name: the field is required"},
		{"test " + dir + "/cases --run (", "--run: error parsing regexp"},
	} {
		code, _, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(c.args)...)...)
		if code != 64 || !strings.Contains(stderr, c.want) {
			t.Errorf("prober plugin %s: exit code %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
}
