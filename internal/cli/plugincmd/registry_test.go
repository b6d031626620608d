package plugincmd_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
)

// hub starts a registry and returns its host. before, if not nil, may answer requests.
func hub(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	r := registrytest.New(t)
	r.Intercept(before)
	return r.Host
}

// demoFile writes a module with its manifest inside, and works in its folder.
func demoFile(t *testing.T) (module []byte) {
	t.Helper()
	module, err := plugin.Embed([]byte(clitest.Module(t, 0)), []byte(clitest.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, ".", map[string]string{"demo.wasm": string(module), "demo.wasm.sig": "a signature"})
	return module
}

// checkFile fails unless the file has these bytes; nil means that there is no file.
func checkFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && want != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v, %d bytes, want %d", path, err, len(got), len(want))
	}
}

func TestPluginPushAndPull(t *testing.T) {
	module, host := demoFile(t), hub(t, nil)
	code, pinned, stderr := clitest.Run(nil, "plugin", "push", "demo.wasm", host+"/me/demo:1", "--plain-http")
	if code != 0 || !strings.HasPrefix(pinned, host+"/me/demo@sha256:") || stderr != "prober: pushed demo 1.0.0 with its signature as "+host+"/me/demo:1\n" {
		t.Fatalf("exit code %d, %q, %q", code, pinned, stderr)
	}
	if err := os.Mkdir("plugins", 0o700); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{"": "demo.wasm", "other.wasm": "other.wasm", "plugins": "plugins/demo.wasm"} {
		args := []string{"plugin", "pull", "oci://" + strings.TrimSpace(pinned), "--plain-http"}
		if out != "" {
			args = append(args, "-o", out)
		}
		code, stdout, stderr := clitest.Run(nil, args...)
		if code != 0 || stdout != pinned || stderr != "prober: wrote demo 1.0.0 with its signature to "+want+"\n" {
			t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
		}
		checkFile(t, want, module)
		checkFile(t, want+".sig", []byte("a signature"))
	}
	// The signature of the previous file is removed.
	if err := os.Remove("demo.wasm.sig"); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "push", "demo.wasm", host+"/me/demo:1", "--plain-http"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "pull", host+"/me/demo:1", "--plain-http", "-o", "other.wasm"); code != 0 {
		t.Fatal(stderr)
	}
	checkFile(t, "other.wasm.sig", nil)
}

func TestPluginPushKeepsTagOfOthers(t *testing.T) {
	demoFile(t)
	r := registrytest.New(t)
	other, err := plugin.Embed([]byte(clitest.Module(t, 0)), []byte(strings.Replace(clitest.Manifest, "name: demo", "name: other", 1)))
	if err != nil {
		t.Fatal(err)
	}
	newer, err := plugin.Embed([]byte(clitest.Module(t, 0)), []byte(strings.Replace(clitest.Manifest, "version: 1.0.0", "version: 2.0.0", 1)))
	if err != nil {
		t.Fatal(err)
	}
	clitest.WriteTree(t, ".", map[string]string{"other.wasm": string(other), "newer.wasm": string(newer)})
	r.PushModule(t, "me/demo:1", other)
	r.Put(t, "/v2/me/demo/manifests/2", "application/vnd.oci.image.manifest.v1+json",
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}`)
	for _, step := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"demo.wasm", "/me/demo:1"}, 1, `prober: error: push: HOST/me/demo:1 is the plugin "other", not "demo"` + "\nprober: hint: nothing was sent; --force replaces it\n"},
		{[]string{"demo.wasm", "/me/demo:2"}, 1, "prober: error: push: HOST/me/demo:2 is an image, not a plugin\nprober: hint: nothing was sent; --force replaces it\n"},
		{[]string{"demo.wasm", "/me/demo:3"}, 0, "prober: pushed demo 1.0.0 with its signature as HOST/me/demo:3\n"},
		{[]string{"newer.wasm", "/me/demo:3"}, 0, "prober: pushed demo 2.0.0 as HOST/me/demo:3\n"},
		{[]string{"other.wasm", "/me/demo:3"}, 1, `prober: error: push: HOST/me/demo:3 is the plugin "demo", not "other"`},
		{[]string{"other.wasm", "/me/demo:3", "--force"}, 0, "prober: pushed other 1.0.0 as HOST/me/demo:3\n"},
		{[]string{"demo.wasm", "/me/demo:2", "--force"}, 0, "prober: pushed demo 1.0.0 with its signature as HOST/me/demo:2\n"},
	} {
		args := slices.Concat([]string{"plugin", "push", step.args[0], r.Host + step.args[1], "--plain-http"}, step.args[2:])
		if code, _, stderr := clitest.Run(nil, args...); code != step.code || !strings.HasPrefix(strings.ReplaceAll(stderr, r.Host, "HOST"), step.stderr) {
			t.Errorf("%v: exit code %d, %q, want %d, %q", step.args, code, stderr, step.code, step.stderr)
		}
	}
}

func TestPushWithCredentialsThatCannotRead(t *testing.T) {
	demoFile(t)
	r := registrytest.New(t)
	r.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		reads := r.Method == http.MethodGet && (strings.Contains(r.URL.Path, "/manifests/") || strings.HasSuffix(r.URL.Path, "/tags/list"))
		if reads {
			w.WriteHeader(http.StatusForbidden)
		}
		return reads
	})
	plugins(t, "push", "demo.wasm", r.Host+"/demo:1", "--plain-http")
	r.Intercept(nil)
	plugins(t, "pull", r.Host+"/demo:1", "--plain-http", "-o", "pulled.wasm")
	if line, _ := inspected(t, "pulled.wasm"); line != "passed with prober dev, says its author" {
		t.Errorf("its report: %q", line)
	}
}

func TestPushOfFileThatChangesMeanwhile(t *testing.T) {
	demoFile(t)
	newer := clitest.Embed(t, clitest.ModuleCode(0), strings.Replace(clitest.Manifest, "1.0.0", "2.0.0", 1))
	r := registrytest.New(t)
	r.Intercept(func(http.ResponseWriter, *http.Request) bool {
		if err := os.WriteFile("demo.wasm", []byte(newer), 0o600); err != nil {
			t.Error(err)
		}
		return false
	})
	refused(t, 1, "demo.wasm: it changed while it was checked", "push", "demo.wasm", r.Host+"/demo:1", "--plain-http")
	if all := r.Requests(); slices.ContainsFunc(all, func(request string) bool { return !strings.HasPrefix(request, "GET ") }) {
		t.Errorf("something was sent: %q", all)
	}
}

func TestPluginSaveAndLoad(t *testing.T) {
	module, host := demoFile(t), hub(t, nil)
	code, _, stderr := clitest.Run(nil, "plugin", "push", ".", host+"/demo:1", "--plain-http")
	if code == 0 || !strings.Contains(stderr, "prober: error: ") {
		t.Errorf("exit code %d, %q: want no plugin in a folder without plugin.yaml", code, stderr)
	}
	clitest.WriteTree(t, ".", map[string]string{"plugin.yaml": clitest.Manifest})
	code, pinned, stderr := clitest.Run(nil, "plugin", "push", ".", host+"/demo:1", "--plain-http", "--skip-check")
	if code != 0 {
		t.Fatal(stderr)
	}
	_, digest, _ := strings.Cut(pinned, "@")
	if code, _, stderr := clitest.Run(nil, "plugin", "pull", host+"/demo:1", "--plain-http"); code != 0 { // with the report
		t.Fatal(stderr)
	}
	for _, tc := range [][]string{
		{"demo.wasm", "-o", "a.tar"}, {"demo.wasm", "-o", "a"}, {host + "/demo:1", "-o", "b.tar", "--plain-http"}, {host + "/demo:1", "-o", "b", "--plain-http"},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin", "save"}, tc...)...)
		if code != 0 || stdout != digest || stderr != "prober: wrote demo 1.0.0 with its signature to "+tc[2]+"\n" {
			t.Fatalf("%q: exit code %d, %q, %q", tc, code, stdout, stderr)
		}
		out := filepath.Join(t.TempDir(), "out.wasm")
		code, stdout, stderr = clitest.Run(nil, "plugin", "load", tc[2], "-o", out)
		if code != 0 || stdout != digest {
			t.Fatalf("%q: exit code %d, %q, %q", tc, code, stdout, stderr)
		}
		checkFile(t, out, module)
		checkFile(t, out+".sig", []byte("a signature"))
	}
	code, _, stderr = clitest.Run(nil, "plugin", "load", "a", "-o", "plugins")
	if want := "prober: error: -o plugins: it is not a folder, and the file of a module ends in .wasm\nprober: hint: mkdir -p plugins makes a folder\n"; code != 64 || stderr != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	code, _, stderr = clitest.Run(nil, "plugin", "load", "a", "-o", "nosuch/")
	if want := "prober: error: -o nosuch/: there is no folder nosuch\nprober: hint: mkdir -p nosuch makes it\n"; code != 64 || stderr != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// A layout may hold several plugins, of different names.
func TestPluginLoadSeveral(t *testing.T) {
	demoFile(t)
	for _, m := range []struct{ file, manifest, layout string }{
		{"other.wasm", strings.Replace(clitest.Manifest, "name: demo", "name: other", 1), "two"},
		{"demo.wasm", clitest.Manifest, "two"},
		{"demo.wasm", clitest.Manifest, "versions"},
		{"next.wasm", strings.Replace(clitest.Manifest, "version: 1.0.0", "version: 2.0.0", 1), "versions"},
	} {
		module, err := plugin.Embed([]byte(clitest.Module(t, 0)), []byte(m.manifest))
		if err != nil {
			t.Fatal(err)
		}
		clitest.WriteTree(t, ".", map[string]string{m.file: string(module)})
		if code, _, stderr := clitest.Run(nil, "plugin", "save", m.file, "-o", m.layout); code != 0 {
			t.Fatal(stderr)
		}
	}
	if err := os.Mkdir("plugins", 0o700); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := clitest.Run(nil, "plugin", "load", "two", "-o", "plugins")
	want := "prober: wrote other 1.0.0 to plugins/other.wasm\nprober: wrote demo 1.0.0 with its signature to plugins/demo.wasm\n"
	if code != 0 || strings.Count(stdout, "sha256:") != 2 || stderr != want {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	code, _, stderr = clitest.Run(nil, "plugin", "load", "versions", "-o", "plugins")
	if code != 64 || !strings.Contains(stderr, `versions has two versions of the plugin "demo", 1.0.0 and 2.0.0`) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestPluginOCIErrors(t *testing.T) {
	demoFile(t)
	host := hub(t, nil)
	locked := hub(t, func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"push", "nosuch.wasm", host + "/demo:1"}, 64, "nosuch.wasm: no such file"},
		{[]string{"push", "demo.wasm", "demo:1"}, 64, "must be HOST/REPOSITORY:TAG"},
		{[]string{"push", "demo.wasm", host + "/demo"}, 64, "must have a :TAG or an @sha256:DIGEST"},
		{[]string{"push", "demo.wasm.sig", host + "/demo:1"}, 64, "prober: error: "},
		{[]string{"push", "demo.wasm", host + "/demo:1"}, 1, "prober: hint: --plain-http allows it\n"},
		{[]string{"push", "demo.wasm", locked + "/demo:1", "--plain-http"}, 1, "unauthorized: " + locked + " requires credentials, and none are configured"},
		{[]string{"pull", host + "/demo:1", "--plain-http"}, 1, "prober: error: " + host + "/demo:1: not found\n"},
		{[]string{"pull", host + "/demo:1", "--plain-http", "--timeout", "1ns"}, 1, host + "/demo:1: not done within 1ns\n"},
		{[]string{"save", "demo.wasm"}, 64, "save: -o is required"},
		{[]string{"save", "demo", "-o", "x"}, 64, "must be HOST/REPOSITORY:TAG"},
		{[]string{"save", "demo.wasm", "-o", "."}, 64, ".: is not an OCI layout"},
		{[]string{"load", "nosuch"}, 64, "nosuch: no such file"},
		{[]string{"load", "demo.wasm"}, 64, "demo.wasm: unexpected EOF: must be a tar archive of an OCI layout"},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, tc.args...)...)
		if code != tc.code || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "prober: error: ") != 1 {
			t.Errorf("%q: exit code %d, want %d with %q\n%s%s", tc.args, code, tc.code, tc.want, stdout, stderr)
		}
	}
	// Docker's credentials give access.
	clitest.WriteTree(t, "docker", map[string]string{"config.json": fmt.Sprintf(`{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, locked)})
	var out, errs bytes.Buffer
	code := cli.Main(command.Env{
		Args:   []string{"plugin", "push", "demo.wasm", locked + "/demo:1"},
		Stdout: &out, Stderr: &errs, Notify: func(...os.Signal) (<-chan os.Signal, func()) { return nil, func() {} },
		LookupEnv: func(name string) (string, bool) {
			value, ok := map[string]string{"DOCKER_CONFIG": "docker", "PROBER_PLAIN_HTTP": "true"}[name]
			return value, ok
		},
	})
	if code != 0 {
		t.Errorf("exit code %d, %s", code, &errs)
	}
}

// A signal stops a transfer that hangs.
func TestPullStopsOnSignal(t *testing.T) {
	t.Chdir(t.TempDir())
	signals := make(chan os.Signal, 1)
	host := hub(t, func(_ http.ResponseWriter, r *http.Request) bool {
		signals <- os.Interrupt
		<-r.Context().Done()
		return true
	})
	code, stdout, stderr := clitest.Run(signals, "plugin", "pull", host+"/demo:1", "--plain-http")
	if code != 1 || stdout != "" || stderr != "prober: error: "+host+"/demo:1: stopped by SIGINT\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
