package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
		{[]string{"plugin", "build", dir}, []string{dir + "/demo.wasm: demo 0.1.0, ", "imports prober_v1_net: ", "asks for net: target\n"}},
		{[]string{"plugin", "vet", dir}, nil},
		{[]string{"plugin", "inspect", filepath.Join(dir, "demo.wasm")}, []string{"demo"}},
		{[]string{"plugin", "test", dir}, []string{"  ok  a server that greets ", "9 passed, 0 failed"}},
		{[]string{"plugin", "test", "-o", "tap", "--run", "black hole", "--matrix", dir}, []string{"ok 4 - demo 0.1.0: a black hole (interpreter/fresh)"}},
	} {
		code, stdout, stderr := run(nil, step.args...)
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
	code, stdout, _ := run(nil, "plugin", "test", path, "--run", "greets")
	if code != 1 || !strings.Contains(stdout, "    -message: 220 web ready\n    +message: 220 mail ready\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, stderr := run(nil, "plugin", "test", path, "--run", "greets", "--update"); code != 1 || !strings.Contains(stderr, "1 values updated") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if code, stdout, _ := run(nil, "plugin", "test", path, "--run", "greets"); code != 0 {
		t.Errorf("after the update: exit code %d\n%s", code, stdout)
	}
}

func TestPluginAuthorsMistakes(t *testing.T) {
	dir := t.TempDir()
	rust := filepath.Join(dir, "rust")
	for path, text := range map[string]string{
		"rust/plugin.yaml":   "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n",
		"rust/Cargo.toml":    "",
		"bare/plugin.yaml":   "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n",
		"wrong/plugin.yaml":  "name: 7_up\n",
		"cases/a_test.yaml":  "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./no.wasm\ncases: []\n",
		"cases2/b_test.yaml": "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./no.wasm\ncases: [{}]\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"new " + dir + "/No_Name", `"No_Name" is no name of a plugin`},
		{"new " + rust, rust + " is there already"},
		{"new " + dir + "/x --lang rust", "--lang rust: this version of prober makes projects in Go only"},
		{"new " + dir + "/x --lang wat", "--lang wat: this version of prober makes projects in Go only"},
		{"new " + dir + "/x --lang perl", `unknown word "perl"; known: go, rust, c, assemblyscript, wat`},
		{"new " + dir + "/no/such", "no such file or directory"},
		{"build " + dir, "plugin.yaml: no such file or directory"},
		{"build " + rust, "this version of prober builds Go only, and this is Rust"},
		{"build " + dir + "/bare", "there is no go.mod"},
		{"build " + dir + "/wrong", dir + `/wrong/plugin.yaml:1: name: "7_up" is no name`},
		{"test", "want a test file or a folder"},
		{"test " + rust, "no *_test.yaml file is there"},
		{"test " + dir + "/cases", "/cases/a_test.yaml: plugin: open "},
		{"test " + dir + "/cases2", "/cases2/b_test.yaml:4: cases[0].name: the field is required"},
		{"test " + dir + "/cases --run (", "--run: error parsing regexp"},
	} {
		code, _, stderr := run(nil, append([]string{"plugin"}, strings.Fields(c.args)...)...)
		if code != 64 || !strings.Contains(stderr, c.want) {
			t.Errorf("prober plugin %s: exit code %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
}

func TestPluginVet(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nrequests: [{capability: kv}]\n",
		"main.go": "package main\n\nimport (\n\tweb \"net/http\"\n\t\"net\"\n)\n\nfunc main() {\n" +
			"\t_, _ = net.Dial(\"tcp\", net.JoinHostPort(\"a\", \"1\"))\n\t_, _ = web.Get(\"http://a\")\n}\n",
		"main_test.go": "package main\n\nimport \"net\"\n\nvar _ = net.Dial\n",
		// One import, prober_v1_net.close, and no names.
		"demo.wasm": "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x02\x17\x01\x0dprober_v1_net\x05close\x00\x00",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := run(nil, "plugin", "vet", dir)
	want := []string{
		dir + "/plugin.yaml: config.schema: there is none, so that any config is taken",
		dir + "/plugin.yaml: requests: kv: there is no reason for the operator who decides",
		dir + "/main.go:9:9: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + "/main.go:10:9: web.Get reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + `/demo.wasm: imports prober_v1_net, and the manifest does not ask for "net"`,
		dir + "/demo.wasm: the names of functions are stripped: a trap says no more where it was",
		"",
	}
	if code != 1 || stdout != strings.Join(want, "\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
