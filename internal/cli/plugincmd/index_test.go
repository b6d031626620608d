package plugincmd_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
)

// plugins runs a command below `prober plugin` that must succeed.
func plugins(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout, stderr
}

// refused runs a command below `prober plugin` that must fail with a code and a text.
func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
	if got != code || !strings.Contains(stderr, want) {
		t.Errorf("%q: exit code %d, want %d with %q\n%s%s", args, got, code, want, stdout, stderr)
	}
}

// written writes modules of versions of a plugin, VERSION.wasm each.
func written(t *testing.T, name string, versions ...string) {
	t.Helper()
	for _, v := range versions {
		manifest := strings.NewReplacer("demo", name, "1.0.0", v).Replace(clitest.Manifest) + "description: checks a queue\n"
		clitest.WriteTree(t, ".", map[string]string{v + ".wasm": clitest.Embed(t, clitest.ModuleCode(0), manifest)})
	}
}

func TestIndexOfRegistry(t *testing.T) {
	t.Chdir(t.TempDir())
	host := hub(t, nil)
	written(t, "demo", "1.0.0", "1.2.0", "2.0.0-rc.1")
	args := []string{"index", "add", "index.yaml", "--plain-http", "--keyword", "jobs"}
	for _, v := range []string{"1.0.0", "1.2.0", "2.0.0-rc.1"} {
		plugins(t, "push", v+".wasm", host+"/demo:"+v, "--plain-http", "--skip-check")
		args = append(args, host+"/demo:"+v)
	}
	plugins(t, args...)
	plugins(t, "index", "push", "index.yaml", host+"/index:latest", "--plain-http")
	server := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer server.Close()
	if err := os.Mkdir("plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"index.yaml", ".", host + "/index:latest", server.URL + "/index.yaml"} {
		stdout, _ := plugins(t, "search", "JOBS", "--index", at, "--plain-http")
		if want := "NAME VERSION REQUESTS SOURCE DESCRIPTION demo 1.2.0 - " + host + "/demo checks a queue"; squeezed(stdout) != want {
			t.Errorf("%s: %s", at, stdout)
		}
		if err := os.RemoveAll("prober.plugins.lock"); err != nil {
			t.Fatal(err)
		}
		_, stderr := plugins(t, "install", "demo@1.0.0", "--index", at, "--plain-http", "--plugins", "plugins")
		if !strings.Contains(stderr, `warning: the signature of plugin "demo" was not verified`) || !strings.Contains(stderr, "prober: added demo 1.0.0, sha256:") {
			t.Errorf("%s: %s", at, stderr)
		}
		code, stdout, _ := clitest.Run(nil, "plugin", "outdated", "--index", at, "--plain-http")
		if want := "NAME LOCKED NEWEST STATE STEP FROM demo 1.0.0 1.2.0 outdated minor index"; code != 1 || squeezed(stdout) != want {
			t.Errorf("%s: exit code %d, %s", at, code, stdout)
		}
		plugins(t, "install", "demo", "--index", at, "--plain-http", "--plugins", "plugins")
		if stdout, _ := plugins(t, "outdated", "--index", at, "--plain-http", "-o", "json"); !strings.Contains(stdout, `"state": "current"`) {
			t.Errorf("%s: %s", at, stdout)
		}
	}
	plugins(t, "list", "--plugins", "plugins")
	refused(t, 64, "must be an HTTPS URL", "search", "--index", server.URL+"/index.yaml")
	refused(t, 1, "the server answered 404", "search", "--index", server.URL+"/nosuch", "--plain-http")
	refused(t, 1, "is not an index of plugins", "search", "--index", host+"/demo:1.0.0", "--plain-http")
	refused(t, 64, `no plugin named "dem" in the index`, "install", "dem", "--index", "index.yaml")
	refused(t, 64, "hint: known: 2.0.0-rc.1, 1.2.0, 1.0.0", "install", "demo@3", "--index", "index.yaml")
	refused(t, 64, "--index is required", "install", "demo")
	refused(t, 64, "there is no folder nosuch", "install", "demo", "--index", "index.yaml", "--plain-http", "--plugins", "nosuch")
}

func TestIndexPushKeepsTagOfPlugin(t *testing.T) {
	module := demoFile(t)
	host := hub(t, nil)
	plugins(t, "push", "demo.wasm", host+"/demo:1", "--plain-http")
	plugins(t, "index", "add", "index.yaml", host+"/demo:1", "--plain-http")
	refused(t, 1, "index push: "+host+"/demo:1 is not an index of plugins\nprober: hint: nothing was sent; --force replaces it\n",
		"index", "push", "index.yaml", host+"/demo:1", "--plain-http")
	plugins(t, "pull", host+"/demo:1", "--plain-http", "-o", "pulled.wasm")
	checkFile(t, "pulled.wasm", module)
	plugins(t, "index", "push", "index.yaml", host+"/demo:1", "--plain-http", "--force")
	plugins(t, "index", "push", "index.yaml", host+"/demo:1", "--plain-http")
	plugins(t, "search", "demo", "--index", host+"/demo:1", "--plain-http")
}

func TestIndexOfFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	written(t, "demo", "1.0.0")
	plugins(t, "save", "1.0.0.wasm", "-o", "layout")
	plugins(t, "index", "build", ".")
	plugins(t, "index", "build", "layout")
	for _, at := range []string{".", "layout"} {
		if err := os.MkdirAll("plugins", 0o755); err != nil {
			t.Fatal(err)
		}
		plugins(t, "install", "demo", "--index", at, "--plugins", "plugins")
		module, err := os.ReadFile("1.0.0.wasm")
		if err != nil {
			t.Fatal(err)
		}
		checkFile(t, "plugins/demo.wasm", module)
		if err := os.RemoveAll("plugins"); err != nil {
			t.Fatal(err)
		}
	}
	plugins(t, "index", "build", "layout", "--registry", "ghcr.io/me", "-o", "remote.yaml")
	if data, err := os.ReadFile("remote.yaml"); err != nil || !strings.Contains(string(data), "source: ghcr.io/me/demo@sha256:") {
		t.Errorf("%v\n%s", err, data)
	}
	refused(t, 64, "has a path as source, which a registry cannot serve", "index", "push", "index.yaml", "localhost/index:1")
	refused(t, 64, ". is not an OCI layout", "index", "build", ".", "--registry", "ghcr.io/me")
}

// A wrong digest, name, version or signature leaves no file.
func TestInstallFailsClosed(t *testing.T) {
	t.Chdir(t.TempDir())
	host := hub(t, nil)
	written(t, "demo", "1.0.0")
	pinned, _ := plugins(t, "push", "1.0.0.wasm", host+"/demo:1.0.0", "--plain-http", "--skip-check")
	plugins(t, "keygen", "-o", "ops.key")
	public, _ := plugins(t, "keygen", "-o", "other.key")
	clitest.WriteTree(t, ".", map[string]string{"other.pub": public, "prober.yaml": "apiVersion: prober.dev/v1\nkind: AgentConfig\ntrust: {require: true, keys: [other.pub]}\n", "plugins/.keep": ""})
	module, err := os.ReadFile("1.0.0.wasm")
	if err != nil {
		t.Fatal(err)
	}
	good := plugin.Digest(module)
	entry := func(name, version, digest string) string {
		return "apiVersion: prober.dev/v1\nkind: PluginIndex\nplugins:\n- name: " + name + "\n  versions:\n  - {version: " + version + ", source: " + strings.TrimSpace(pinned) + ", digest: '" + digest + "'}\n"
	}
	for _, tc := range []struct {
		name, index, plugin, want string
		args                      []string
	}{
		{"digest", entry("demo", "1.0.0", "sha256:"+strings.Repeat("0", 64)), "demo", "its digest is " + good + ", the index has sha256:000", nil},
		{"name", entry("other", "1.0.0", good), "other", `plugin "other": its manifest is of demo 1.0.0`, nil},
		{"version", entry("demo", "9.0.0", good), "demo", "the index has version 9.0.0", nil},
		{"artifact", strings.Replace(entry("demo", "1.0.0", good), "@sha256:", "@sha256:"+strings.Repeat("0", 64)+"#", 1), "demo", "", nil},
		{"key", entry("demo", "1.0.0", good), "demo", `plugin "demo": `, []string{"--key", "other.pub"}},
		{"trust", entry("demo", "1.0.0", good), "demo", "not signed", []string{"--config", "prober.yaml"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clitest.WriteTree(t, ".", map[string]string{"index.yaml": tc.index})
			code, _, stderr := clitest.Run(nil, append([]string{"plugin", "install", tc.plugin, "--index", "index.yaml", "--plain-http", "--plugins", "plugins"}, tc.args...)...)
			if code == 0 || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			checkFile(t, "plugins/demo.wasm", nil)
			checkFile(t, "prober.plugins.lock", nil)
		})
	}
	clitest.WriteTree(t, ".", map[string]string{"index.yaml": entry("demo", "1.0.0", good)})
	plugins(t, "install", "demo", "--index", "index.yaml", "--plain-http", "--plugins", "plugins")
	clitest.WriteTree(t, ".", map[string]string{"index.yaml": entry("demo", "1.0.0", "sha256:"+strings.Repeat("1", 64))})
	code, stdout, _ := clitest.Run(nil, "plugin", "outdated", "--index", "index.yaml")
	if code != 1 || !strings.Contains(stdout, "other bytes") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

func TestIndexBuildElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	written(t, "demo", "1.0.0")
	module, err := os.ReadFile("1.0.0.wasm")
	if err != nil {
		t.Fatal(err)
	}
	clitest.WriteTree(t, ".", map[string]string{"folder/demo.wasm": string(module), "to/.keep": ""})
	plugins(t, "save", "1.0.0.wasm", "-o", "layout")
	for _, dir := range []string{"folder", "layout"} {
		plugins(t, "index", "build", dir, "-o", "all.yaml")
		plugins(t, "install", "demo", "--index", "all.yaml", "--plugins", "to", "--lock", dir+".lock")
		checkFile(t, "to/demo.wasm", module)
		refused(t, 64, "-o names a file in the folder of the plugins, or above it", "index", "build", dir, "-o", "to/index.yaml")
		checkFile(t, "to/index.yaml", nil)
	}
}

func TestIndexBuildOfProgramInLayout(t *testing.T) {
	demoProgram(t)
	plugins(t, "keygen", "-o", "ops.key")
	public, _ := plugins(t, "keygen", "-o", "ops2.key")
	clitest.WriteTree(t, ".", map[string]string{"ops.pub": public})
	plugins(t, "sign", "here/prober-plugin-demo", "--key", "ops2.key")
	plugins(t, "save", "here/prober-plugin-demo", "-o", "layout")
	plugins(t, "index", "build", "layout")
	plugins(t, "install", "demo", "--index", "layout", "--plugins", "out", "--key", "ops.pub")
	if _, err := os.Stat("out/prober-plugin-demo"); err != nil {
		t.Error(err)
	}
}

func TestErrorsHideSecretsOfIndexURL(t *testing.T) {
	t.Chdir(t.TempDir())
	written(t, "demo", "1.0.0")
	plugins(t, "index", "build", ".")
	clitest.WriteTree(t, ".", map[string]string{"bad.yaml": "kind: Other\n"})
	server := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, tc := range []struct{ index, want string }{
		{"http://me:secret@" + host + "/bad.yaml?token=secret", "http://" + host + "/bad.yaml:1: "},
		{"http://me:secret@" + host + "/index.yaml?token=secret", "http://" + host + `/index.yaml has the path "1.0.0.wasm" as a source`},
		{"http://me:secret@" + host + "/nosuch", "the server answered 404"},
		{"HTTP://me:secret@" + host + "/index.yaml", "http://" + host + "/index.yaml is not a reference"},
		{"oci://me:secret@" + host + "/index:1", "oci://" + host + "/index:1 is not a reference"},
	} {
		code, stdout, stderr := clitest.Run(nil, "plugin", "install", "demo", "--index", tc.index, "--plain-http")
		if code == 0 || !strings.Contains(stderr, tc.want) || strings.Contains(stdout+stderr, "secret") {
			t.Errorf("%s: exit code %d, want %q\n%s%s", tc.index, code, tc.want, stdout, stderr)
		}
	}
}

// The folder may have the manifest of another module, which would apply.
func TestInstallLocksWhatItVerified(t *testing.T) {
	t.Chdir(t.TempDir())
	written(t, "demo", "1.0.0")
	plugins(t, "index", "build", ".")
	clitest.WriteTree(t, ".", map[string]string{"plugins/plugin.yaml": clitest.Manifest + "requests: [{capability: net, allow: ['tcp://*:*']}]\n"})
	refused(t, 1, "plugins/demo.wasm: it or the manifest beside it is not what was verified\nprober: hint: no lock was written\n",
		"install", "demo", "--index", ".", "--plugins", "plugins")
	checkFile(t, "prober.plugins.lock", nil)
}

// A program has no sandbox, so the index alone does not decide about it.
func TestInstallProgramNeedsSignature(t *testing.T) {
	demoProgram(t)
	host := hub(t, nil)
	plugins(t, "keygen", "-o", "ops.key")
	public, _ := plugins(t, "keygen", "-o", "ops2.key")
	clitest.WriteTree(t, ".", map[string]string{"ops.pub": public})
	plugins(t, "sign", "here/prober-plugin-demo", "--key", "ops2.key")
	plugins(t, "push", "here/prober-plugin-demo", host+"/demo:1.0.0", "--plain-http")
	plugins(t, "index", "add", "index.yaml", host+"/demo:1.0.0", "--plain-http")
	refused(t, 1, "is a program without a sandbox", "install", "demo", "--index", "index.yaml", "--plain-http", "--plugins", "out")
	checkFile(t, "out/prober-plugin-demo", nil)
	plugins(t, "install", "demo", "--index", "index.yaml", "--plain-http", "--plugins", "out", "--key", "ops.pub")
	if _, err := os.Stat("out/prober-plugin-demo"); err != nil {
		t.Error(err)
	}
}

func TestIndexCannotTakeNames(t *testing.T) {
	t.Chdir(t.TempDir())
	written(t, "redis", "1.0.0")
	_, stderr := plugins(t, "index", "build", ".")
	if !strings.Contains(stderr, `"redis" is part of prober`) {
		t.Error(stderr)
	}
	stdout, _ := plugins(t, "search", "redis", "--index", ".")
	if got := squeezed(stdout); !strings.Contains(got, " part of prober ") || !strings.Contains(got, "1.0.0.wasm (its name is part of prober)") {
		t.Error(stdout)
	}
	if stdout, _ := plugins(t, "search", "redis"); !strings.Contains(stdout, "part of prober") {
		t.Error(stdout)
	}
	refused(t, 64, `plugin "redis" is part of prober`, "install", "redis", "--index", ".")
	refused(t, 64, `"http" is a built-in handler`, "install", "http", "--index", ".", "--replace-shipped")
	if err := os.Mkdir("plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	plugins(t, "install", "redis", "--index", ".", "--replace-shipped", "--plugins", "plugins")

	// Texts of an index cannot move the cursor.
	index := "apiVersion: prober.dev/v1\nkind: PluginIndex\nplugins:\n- name: evil\n  description: \"\\e[31mred\\nline\\u202e\"\n  versions: [{version: \"1\\e[2J\", source: a.wasm, digest: 'sha256:" + strings.Repeat("0", 64) + "'}]\n"
	clitest.WriteTree(t, ".", map[string]string{"index.yaml": index})
	stdout, _ = plugins(t, "search", "evil", "--index", ".")
	if strings.ContainsAny(stdout, "\x1b\u202e") || strings.Count(stdout, "\n") != 2 {
		t.Errorf("%q", stdout)
	}
	code, stdout, stderr := clitest.Run(nil, "plugin", "install", "evil@2", "--index", ".")
	if code != 64 || strings.ContainsAny(stdout+stderr, "\x1b\u202e") {
		t.Errorf("exit code %d, %q", code, stdout+stderr)
	}
}

// lockOf writes a lock of plugins by name, with their versions and sources.
func lockOf(t *testing.T, all map[string][2]string) {
	t.Helper()
	var locked []map[string]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		locked = append(locked, map[string]string{"name": name, "version": all[name][0], "source": all[name][1], "digest": "sha256:" + strings.Repeat("0", 64)})
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "prober.dev/v1", "kind": "PluginLock", "plugins": locked})
	if err != nil {
		t.Fatal(err)
	}
	clitest.WriteTree(t, ".", map[string]string{"prober.plugins.lock": string(data)})
}

func TestOutdatedComparesWithRegistry(t *testing.T) {
	module := demoFile(t)
	r, gone := registrytest.New(t), registrytest.New(t)
	for _, tag := range []string{"pre:1.9.0", "pre:2.0.0-rc.2", "names:1.0.0", "only:3.0.0-rc.1"} {
		r.PushModule(t, tag, module)
	}
	gone.Close()
	from := func(repository string) string {
		return "oci://" + r.Host + "/" + repository + "@sha256:" + strings.Repeat("0", 64)
	}
	for _, tc := range []struct {
		name string
		lock map[string][2]string
		code int
		want string
	}{
		{"a pre-release counts for a pre-release", map[string][2]string{"demo": {"2.0.0-rc.1", from("pre")}}, 1, "demo 2.0.0-rc.1 2.0.0-rc.2 outdated major registry"},
		{"no pre-release counts for a release", map[string][2]string{"demo": {"1.9.0", from("pre")}, "other": {"1.0.0", from("only")}}, 0,
			"demo 1.9.0 1.9.0 current none registry other 1.0.0 - unknown none registry"},
		{"names cannot be compared", map[string][2]string{"demo": {"nightly", from("names")}}, 0, "demo nightly 1.0.0 unknown none registry"},
		{"an unreachable registry", map[string][2]string{"demo": {"1.0.0", "oci://" + gone.Host + "/demo:1"}, "other": {"1.9.0", from("pre")}}, 3,
			"demo 1.0.0 - unknown none registry other 1.9.0 1.9.0 current none registry"},
		{"an unreachable registry, and an outdated plugin", map[string][2]string{"demo": {"1.0.0", "oci://" + gone.Host + "/demo:1"}, "other": {"1.8.0", from("pre")}}, 1,
			"demo 1.0.0 - unknown none registry other 1.8.0 1.9.0 outdated minor registry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lockOf(t, tc.lock)
			code, stdout, stderr := clitest.Run(nil, "plugin", "outdated", "--plain-http", "--timeout", "3s")
			if code != tc.code || squeezed(stdout) != "NAME LOCKED NEWEST STATE STEP FROM "+tc.want {
				t.Errorf("exit code %d, want %d with %s\n%s%s", code, tc.code, tc.want, stdout, stderr)
			}
			if failed := strings.Contains(stderr, `prober: error: plugin "demo": `+gone.Host+"/demo"); failed != strings.Contains(tc.name, "unreachable") {
				t.Errorf("stderr: %q", stderr)
			}
		})
	}
}
