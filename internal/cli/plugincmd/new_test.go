package plugincmd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// A new plugin builds, and passes its tests at once, with Go and nothing else: not even
// a module proxy.
func TestNewPlugin(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "")
	dir := filepath.Join(t.TempDir(), "demo")
	for _, step := range []struct {
		args []string
		want []string // in stdout
	}{
		{[]string{"plugin", "new", dir, "--lang", "go"}, []string{"made " + dir}},
		{[]string{"plugin", "build", dir}, []string{dir + "/demo.wasm: demo 0.1.0, ", "imports prober_v1_net: ", "requests net: target\n"}},
		{[]string{"plugin", "vet", dir}, nil},
		{[]string{"plugin", "inspect", filepath.Join(dir, "demo.wasm")}, []string{"demo"}},
		{[]string{"plugin", "test", dir}, []string{"  ok  a server that greets ", " passed, 0 failed"}},
		{[]string{"plugin", "test", "-o", "tap", "--run", "black hole", "--matrix", dir}, []string{"ok 4 - demo 0.1.0: a black hole (interpreter/fresh)"}},
	} {
		code, stdout, stderr := clitest.Run(nil, step.args...)
		if code != 0 {
			t.Fatalf("prober %s: exit code %d\n%s%s", strings.Join(step.args, " "), code, stdout, stderr)
		}
		for _, want := range step.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("prober %s: no %q in\n%s", strings.Join(step.args, " "), want, stdout)
			}
		}
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s in the new folder: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	testFailingPlugin(t, dir)
}

// A process builds, and passes its tests at once, with Go and the modules that prober itself
// is built with; and so does the same source as a module.
func TestNewProcess(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-trimpath") // as prober builds, so that little is compiled twice
	t.Setenv("CGO_ENABLED", "0")
	dir := filepath.Join(t.TempDir(), "demo")
	built := filepath.Join(dir, "prober-plugin-demo")
	for _, step := range []struct {
		args []string
		want []string // in stdout
	}{
		{[]string{"new", dir, "--runtime", "process"}, []string{"made " + dir + "; next: prober plugin build " + dir + " && prober plugin test " + dir + "\n"}},
		{[]string{"build", dir}, []string{built + ": demo 0.1.0, ", "its manifest is " + built + ".yaml\nit runs in no sandbox\n"}},
		{[]string{"test", dir}, []string{"  ok  a server that is slow ", "process  on loopback; the memory of a process is its own", " passed, 0 failed, 3 left out"}},
		{[]string{"vet", dir}, nil},
		{[]string{"inspect", dir}, []string{"Runtime:       process\nSandbox:       none: it may do what prober may\n"}},
		{[]string{"list", dir}, []string{"  process  ", built}},
		{[]string{"build", "--runtime", "wasm", dir}, []string{dir + "/demo.wasm: demo 0.1.0, ", "requests net: target\n"}},
		{[]string{"test", "--plugin", dir + "/demo.wasm", "--run", "greets|busy", dir}, []string{"2 passed, 0 failed"}},
		{[]string{"vet", dir}, nil},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, step.args...)...)
		if code != 0 {
			t.Fatalf("prober plugin %s: exit code %d\n%s%s", strings.Join(step.args, " "), code, stdout, stderr)
		}
		for _, want := range step.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("prober plugin %s: no %q in\n%s", strings.Join(step.args, " "), want, stdout)
			}
		}
	}
	code, _, stderr := clitest.Run(nil, "plugin", "bench", dir)
	if want := `prober: error: plugin "demo" is a program: only modules can be measured`; code != 64 || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-ldflags=-s -w", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s in the new folder: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
}

func TestNewNagiosCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	code, stdout, stderr := clitest.Run(nil, "plugin", "new", dir, "--runtime", "nagios")
	if want := "made " + dir + "; next: prober plugin test " + dir + "\n"; code != 0 || stdout != want {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = clitest.Run(nil, "plugin", "test", dir)
	if code != 0 || !strings.Contains(stdout, "  ok  no such folder ") || !strings.Contains(stdout, "7 passed, 0 failed, 3 left out") {
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

// testFailingPlugin has a case of the plugin in dir fail, and updates it.
func testFailingPlugin(t *testing.T, dir string) {
	path := filepath.Join(dir, "demo_test.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "message: 220 mail ready", "message: 220 web ready", 1)
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := clitest.Run(nil, "plugin", "test", path, "--run", "greets")
	if code != 1 || !strings.Contains(stdout, "    -message: 220 web ready\n    +message: 220 mail ready\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "test", path, "--run", "greets", "--update"); code != 1 || !strings.Contains(stderr, "1 values updated") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if code, stdout, _ := clitest.Run(nil, "plugin", "test", path, "--run", "greets"); code != 0 {
		t.Errorf("after the update: exit code %d\n%s", code, stdout)
	}
}

func TestAuthorMistakesHaveHints(t *testing.T) {
	dir := t.TempDir()
	const manifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"
	clitest.WriteTree(t, dir, map[string]string{
		"rust/plugin.yaml":   manifest,
		"rust/Cargo.toml":    "",
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
		{"new " + dir + "/x --lang perl", `unknown word "perl"; known: go, rust, c, assemblyscript, wat`},
		{"new " + dir + "/x --lang rust --runtime process", "--runtime process makes a project in Go, not in rust"},
		{"new " + dir + "/x --lang go --runtime nagios", "--runtime nagios makes a shell script, whatever the language"},
		{"new " + dir + "/x --runtime container", `unknown word "container"; known: wasm, process, nagios`},
		{"build --runtime process " + dir + "/wat", "prober builds processes of Go, not of WAT"},
		{"new " + dir + "/no/such", "no such file or directory"},
		{"build " + dir, "plugin.yaml: no such file or directory"},
		{"build " + dir + "/rust", dir + "/rust: there is no lib.rs"},
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
