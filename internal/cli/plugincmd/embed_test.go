package plugincmd_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/plugin"
)

// handBuilt makes the folder demo of a plugin whose module other tools have built, and a key,
// and changes to the folder that they are in.
func handBuilt(t *testing.T) (embedded []byte) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, ".", map[string]string{
		"demo/plugin.yaml": clitest.Manifest, "demo/demo.wasm": clitest.ModuleCode(0), "demo/demo_test.yaml": clitest.Cases,
		"prober.yaml": "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: demo, source: demo/demo.wasm}]\n",
	})
	if code, stdout, stderr := clitest.Run(nil, "plugin", "keygen", "-o", "ops.key"); code != 0 {
		t.Fatal(stderr)
	} else if err := os.WriteFile("ops.pub", []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	embedded, err := plugin.Embed([]byte(clitest.ModuleCode(0)), []byte(clitest.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	return embedded
}

func TestEveryCommandReadsManifestBesideModule(t *testing.T) {
	embedded := handBuilt(t)
	for _, c := range []struct{ args, want string }{ // a pattern of stdout
		{"test demo --run well", "1 passed, 0 failed"},
		{"test demo/demo.wasm --run well", "1 passed, 0 failed"},
		{"test ./demo/plugin.yaml --run well", "1 passed, 0 failed"},
		{"run demo --target 127.0.0.1:1", "success"},
		{"run demo/demo.wasm --target 127.0.0.1:1", "success"},
		{"run demo --target 127.0.0.1:1 --plugins .", "success"},
		{"run demo --target 127.0.0.1:1 --plugins demo", "success"},
		{"run demo --target 127.0.0.1:1 --agent-config prober.yaml", "success"},
		{"inspect demo", "Manifest: +" + plugin.Digest([]byte(clitest.Manifest))},
		{"inspect demo/demo.wasm -o json", `"manifestDigest": "` + plugin.Digest([]byte(clitest.Manifest))},
		{"bench demo --time 1ms", "isolation=pooled"},
		{"list demo", "demo +1.0.0 +wasm"},
		{"list --plugins .", "demo +1.0.0 +wasm"},
		{"list --plugins demo", "demo +1.0.0 +wasm"},
		{"lock --plugins demo -o -", "manifest: " + plugin.Digest([]byte(clitest.Manifest))},
		{"sign demo --skip-check --key ops.key", "demo/demo.wasm.sig: key "},
		{"verify demo --key ops.pub", "demo/demo.wasm: signed by "},
		{"verify demo/demo.wasm --key ops.pub", "demo/demo.wasm: signed by "},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(c.args)...)...)
		if code != 0 || !regexp.MustCompile(c.want).MatchString(stdout) || strings.Contains(stderr, "another manifest inside") {
			t.Errorf("%s: exit code %d\n%s%s\nwant %s", c.args, code, stdout, stderr, c.want)
		}
	}
	code, _, stderr := clitest.Run(nil, "plugin", "save", "demo", "-o", "signed")
	if want := "prober: error: plugin demo/demo.wasm is signed without the manifest inside, and an artifact has it inside\n" +
		"prober: hint: `prober plugin embed demo/demo.wasm demo/plugin.yaml` puts it inside; then sign it again\n"; code != 64 || stderr != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if err := os.Remove("demo/demo.wasm.sig"); err != nil {
		t.Fatal(err)
	}
	host := hub(t, nil)
	for _, args := range []string{"save demo -o layout", "push demo/demo.wasm " + host + "/demo:1 --plain-http --skip-check"} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(args)...)...)
		want := "prober: put demo/plugin.yaml into the module of the artifact, whose digest is " + plugin.Digest(embedded) + "; demo/demo.wasm is as it was\n"
		if code != 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %s", args, code, stdout, stderr, want)
		}
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "load", "layout", "-o", "loaded.wasm"); code != 0 {
		t.Error(stderr)
	}
	checkFile(t, "loaded.wasm", embedded)
	if code, _, stderr := clitest.Run(nil, "plugin", "pull", host+"/demo:1", "--plain-http", "-o", "pulled.wasm"); code != 0 {
		t.Error(stderr)
	}
	checkFile(t, "pulled.wasm", embedded)
	checkFile(t, "demo/demo.wasm", []byte(clitest.ModuleCode(0)))
}

// A module or its plugin.yaml selects the project in its folder, but no other plugin there.
func TestVetAndTestAcceptModule(t *testing.T) {
	handBuilt(t)
	clitest.WriteTree(t, ".", map[string]string{
		"demo/other.wasm": clitest.ModuleCode(0), "demo/third.wasm": clitest.ModuleCode(0),
		"demo/other_test.yaml": strings.Replace(clitest.Cases, "./demo.wasm", "./other.wasm", 1),
	})
	_, vetted, _ := clitest.Run(nil, "plugin", "vet", "demo")
	for _, path := range []string{"demo/demo.wasm", "./demo/demo.wasm", "demo/plugin.yaml"} {
		if code, stdout, stderr := clitest.Run(nil, "plugin", "vet", path); code != 1 || stdout != vetted || stderr != "" {
			t.Errorf("vet %s: exit code %d\n%s%s\nwant\n%s", path, code, stdout, stderr, vetted)
		}
		code, stdout, stderr := clitest.Run(nil, "plugin", "test", "--run", "well", path)
		if code != 0 || !strings.Contains(stdout, "1 passed, 0 failed") || strings.Contains(stdout, "other_test") {
			t.Errorf("test %s: exit code %d\n%s%s", path, code, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"vet demo/other.wasm":   "demo/other.wasm: the plugin.yaml beside it describes demo/demo.wasm",
		"vet demo/nosuch.wasm":  "stat demo/nosuch.wasm: no such file or directory",
		"test demo/third.wasm":  "demo/third.wasm: no *_test.yaml file beside it is about this plugin",
		"test demo/nosuch.wasm": "stat demo/nosuch.wasm: no such file or directory",
	} {
		code, _, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(args)...)...)
		if code != 64 || stderr != "prober: error: "+want+"\n" {
			t.Errorf("%s: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
}

func TestManifestBesideModuleTakesPrecedence(t *testing.T) {
	handBuilt(t)
	if code, _, stderr := clitest.Run(nil, "plugin", "embed", "demo/demo.wasm", "demo/plugin.yaml"); code != 0 {
		t.Fatal(stderr)
	}
	clitest.WriteTree(t, ".", map[string]string{"demo/plugin.yaml": strings.Replace(clitest.Manifest, "1.0.0", "2.0.0", 1)})
	const warning = "prober: warning: demo/demo.wasm has another manifest inside than demo/plugin.yaml, which takes precedence\n"
	for _, args := range []string{"inspect demo", "run demo --target 127.0.0.1:1", "bench demo --time 1ms", "sign demo --skip-check --key ops.key", "verify demo --key ops.pub"} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stderr, warning) {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
		if args == "inspect demo" && !strings.Contains(stdout, "2.0.0") {
			t.Error(stdout)
		}
	}
}

func TestPluginEmbed(t *testing.T) {
	embedded := handBuilt(t)
	clitest.WriteTree(t, ".", map[string]string{
		"old.wasm": clitest.Module(t, 0), "demo.wasm.sig": "a signature", "short.wasm": "\x00asm",
		"next.yaml":    strings.Replace(clitest.Manifest, "1.0.0", "2.0.0", 1),
		"bad.yaml":     clitest.Manifest + "requets: []\n",
		"process.yaml": clitest.Manifest + "runtime: process\n",
		"folder/empty": "", "big.wasm": clitest.ModuleCode(0) + strings.Repeat("\x00", plugin.MaxManifest),
	})
	next, err := plugin.Embed([]byte(clitest.ModuleCode(0)), []byte(strings.Replace(clitest.Manifest, "1.0.0", "2.0.0", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		code   int
		stdout string // how it begins, or ends with -o -
		stderr string
		file   string
		want   []byte
	}{
		{"bare.wasm plugin.yaml", 64, "", "prober: error: manifest: open plugin.yaml: no such file or directory\n", "", nil},
		{"nosuch.wasm demo/plugin.yaml", 64, "", "prober: error: module: open nosuch.wasm: no such file or directory\n", "nosuch.wasm", nil},
		{"demo/demo.wasm bad.yaml", 64, "", "prober: error: bad.yaml:5: requets: unknown field; known: ", "demo/demo.wasm", []byte(clitest.ModuleCode(0))},
		{"demo/demo.wasm process.yaml", 64, "", "prober: error: process.yaml: its runtime is process, which is not the runtime of a module\n", "demo/demo.wasm", []byte(clitest.ModuleCode(0))},
		{"demo/plugin.yaml demo/demo.wasm", 64, "", "prober: error: demo/demo.wasm is a module: the first argument must be the module, and the second its manifest\n" +
			"prober: hint: `prober plugin embed demo/demo.wasm demo/plugin.yaml`\n", "demo/plugin.yaml", []byte(clitest.Manifest)},
		{"demo/plugin.yaml big.wasm", 64, "", "prober: error: big.wasm is a module: ", "", nil},
		{"demo/plugin.yaml demo/plugin.yaml", 64, "", "prober: error: demo/plugin.yaml: not a WebAssembly module of version 1\n", "demo/plugin.yaml", []byte(clitest.Manifest)},
		{"short.wasm demo/plugin.yaml", 64, "", "prober: error: short.wasm: not a WebAssembly module of version 1\n", "short.wasm", []byte("\x00asm")},
		{"demo/demo.wasm demo/plugin.yaml -o out.wasm", 0, "out.wasm: demo 1.0.0, 0.1 KiB, " + plugin.Digest(embedded), "", "out.wasm", embedded},
		{"demo/demo.wasm demo/plugin.yaml -o folder", 0, "folder/demo.wasm: demo 1.0.0, ", "", "folder/demo.wasm", embedded},
		{"demo/demo.wasm demo/plugin.yaml -o -", 0, string(embedded), "", "demo/demo.wasm", []byte(clitest.ModuleCode(0))},
		{"demo/demo.wasm demo/plugin.yaml -o demo.wasm", 0, "demo.wasm: demo 1.0.0, ",
			"prober: warning: demo.wasm.sig signs the module as it was before: sign it again\n", "demo.wasm", embedded},
		{"demo/demo.wasm demo/plugin.yaml", 0, "demo/demo.wasm: demo 1.0.0, ", "", "demo/demo.wasm", embedded},
		{"old.wasm next.yaml", 0, "old.wasm: demo 2.0.0, ", "", "old.wasm", next},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin", "embed"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.HasPrefix(stdout, c.stdout) || c.stdout == "" && stdout != "" || !strings.HasPrefix(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d\n%q\n%q", c.args, code, stdout, stderr)
		}
		if c.file != "" {
			checkFile(t, c.file, c.want)
		}
	}
	if left, err := filepath.Glob(".*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The target of a link is replaced, and keeps its mode.
func TestPluginEmbedThroughLink(t *testing.T) {
	embedded := handBuilt(t)
	if err := os.Symlink("demo/demo.wasm", "link.wasm"); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "embed", "link.wasm", "demo/plugin.yaml"); code != 0 {
		t.Fatal(stderr)
	}
	checkFile(t, "demo/demo.wasm", embedded)
	if info, err := os.Lstat("demo/demo.wasm"); err != nil || info.Mode() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if to, err := os.Readlink("link.wasm"); err != nil || to != "demo/demo.wasm" {
		t.Errorf("%s, %v", to, err)
	}
}

func TestModuleWithoutManifestHasHint(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, ".", map[string]string{"bare.wasm": clitest.ModuleCode(0)})
	const want = `prober: error: plugin bare.wasm: the module has no manifest inside, in the custom section "prober.manifest", and there is no plugin.yaml beside it` +
		"\nprober: hint: `prober plugin embed bare.wasm plugin.yaml` puts a manifest inside\n"
	for _, args := range []string{"inspect bare.wasm", "run bare.wasm", "save bare.wasm -o layout"} {
		if code, _, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(args)...)...); code != 64 || stderr != want {
			t.Errorf("%s: exit code %d, %q", args, code, stderr)
		}
	}
}

// TestEmbedTakesModuleOutOfComponent embeds into the module of a component, which must not replace the component.
func TestEmbedTakesModuleOutOfComponent(t *testing.T) {
	want := handBuilt(t)
	section := func(id byte, body string) string {
		return string(binary.AppendUvarint([]byte{id}, uint64(len(body)))) + body
	}
	component := "\x00asm\x0d\x00\x01\x00" + section(1, clitest.ModuleCode(0))
	clitest.WriteTree(t, ".", map[string]string{"component.wasm": component, "two.wasm": component + component[8:]})
	code, _, stderr := clitest.Run(nil, "plugin", "embed", "component.wasm", "demo/plugin.yaml", "-o", "out.wasm")
	if code != 0 || !strings.Contains(stderr, "took the module out of the component component.wasm") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got, err := os.ReadFile("out.wasm"); err != nil || string(got) != string(want) {
		t.Errorf("got %d bytes, %v; want the module of %d bytes with its manifest", len(got), err, len(want))
	}
	for args, want := range map[string]string{
		"embed component.wasm demo/plugin.yaml":       "component.wasm is a component: name the file for its module with -o",
		"embed two.wasm demo/plugin.yaml -o out.wasm": "2 modules that have a memory",
		"inspect component.wasm":                      "take the module out of it with `prober plugin embed`",
	} {
		if code, _, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; want %s", args, code, stderr, want)
		}
	}
	if got, err := os.ReadFile("component.wasm"); err != nil || string(got) != component {
		t.Errorf("the component was changed: %v", err)
	}
}
