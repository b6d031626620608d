//go:build unix

package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/cli/command"
)

const fifoPod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    prober.dev/probes: |\n" +
	"      c: {readiness: {plugin: {name: demo, config: {password: \"${file:FIFO}\"}}}}\nspec: {containers: [{name: c}]}\n"

const demoPod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    prober.dev/probes: |\n" +
	"      c: {readiness: {plugin: {name: demo}}}\nspec: {containers: [{name: c}]}\n"

const fifoAgent = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

// withoutWriter are command lines that read a named pipe without a writer, in the place of a file.
// DIR is the folder of all files.
var withoutWriter = []struct {
	name  string
	pipe  string            // its path in DIR
	files map[string]string // other files
	args  string
}{
	{"run: manifest in a folder", "pods/x.yaml", nil, "run --listen 127.0.0.1:0 -f DIR/pods"},
	{"run: secret", "secret", map[string]string{"pod.yaml": fifoPod, "plugins/demo.wasm": "MODULE", "prober.yaml": fifoAgent + "secrets: {allow: [\"file:FIFO\"]}\n"}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins --config DIR/prober.yaml"},
	{"run: prober.yaml", "prober.yaml", map[string]string{"pod.yaml": demoPod}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --config DIR/prober.yaml"},
	{"run: trusted key", "ops.pub", map[string]string{"pod.yaml": demoPod, "prober.yaml": fifoAgent + "trust: {keys: [ops.pub]}\n"}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --config DIR/prober.yaml"},
	{"run: lock", "lock", map[string]string{"pod.yaml": demoPod}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins-lock DIR/lock"},
	{"run: module in a folder", "plugins/demo.wasm", map[string]string{"pod.yaml": demoPod}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins"},
	{"run: plugin.yaml", "plugins/demo/plugin.yaml", map[string]string{"pod.yaml": demoPod}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins"},
	{"run: module beside plugin.yaml", "plugins/demo/demo.wasm", map[string]string{"pod.yaml": demoPod, "plugins/demo/plugin.yaml": clitest.Manifest}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins"},
	{"run: program", "plugins/prober-plugin-demo", map[string]string{"pod.yaml": demoPod, "plugins/prober-plugin-demo.yaml": clitest.Manifest}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins"},
	{"run: manifest of a program", "plugins/prober-plugin-demo.yaml", map[string]string{"pod.yaml": demoPod, "plugins/prober-plugin-demo": ""}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugins DIR/plugins"},
	{"run: plugin under development", "demo.wasm", map[string]string{"pod.yaml": demoPod}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --plugin-dev demo=DIR/demo.wasm"},
	{"run: source of prober.yaml", "demo.wasm", map[string]string{"pod.yaml": demoPod, "prober.yaml": fifoAgent + "plugins: [{name: demo, source: ./demo.wasm}]\n"}, "run --listen 127.0.0.1:0 -f DIR/pod.yaml --config DIR/prober.yaml"},
	{"validate: manifest in a folder", "pods/x.yaml", nil, "validate DIR/pods"},
	{"validate: module in a folder", "plugins/demo.wasm", map[string]string{"pod.yaml": demoPod}, "validate DIR/pod.yaml --plugins DIR/plugins"},
	{"inspect: module", "demo.wasm", nil, "plugin inspect DIR/demo.wasm"},
	{"inspect: signature", "demo.wasm.sig", map[string]string{"demo.wasm": "MODULE", "ops.pub": "KEY"}, "plugin inspect DIR/demo.wasm --key DIR/ops.pub"},
	{"inspect: key", "ops.pub", map[string]string{"demo.wasm": "MODULE"}, "plugin inspect DIR/demo.wasm --key DIR/ops.pub"},
	{"verify: module", "demo.wasm", map[string]string{"ops.pub": "KEY"}, "plugin verify DIR/demo.wasm --key DIR/ops.pub"},
	{"verify: cosign's bundle", "demo.wasm.cosign.bundle", map[string]string{"demo.wasm": "MODULE", "ops.pub": "KEY"}, "plugin verify DIR/demo.wasm --key DIR/ops.pub"},
	{"sign: key", "ops.key", map[string]string{"demo.wasm": "MODULE"}, "plugin sign DIR/demo.wasm --key DIR/ops.key"},
	{"probe: module", "demo.wasm", nil, "probe plugin DIR/demo.wasm"},
	{"bench: module", "demo.wasm", nil, "plugin bench DIR/demo.wasm"},
	{"list: module in a folder", "plugins/demo.wasm", nil, "plugin list --plugins DIR/plugins"},
	{"lock: module in a folder", "plugins/demo.wasm", nil, "plugin lock --plugins DIR/plugins -o DIR/lock"},
	{"push: module", "demo.wasm", nil, "plugin push DIR/demo.wasm 127.0.0.1:1/demo:1.0.0"},
	{"push: signature", "demo.wasm.sig", map[string]string{"demo.wasm": "MODULE"}, "plugin push DIR/demo.wasm 127.0.0.1:1/demo:1.0.0"},
	{"pull: docker's config", "docker/config.json", nil, "plugin pull 127.0.0.1:1/demo:1.0.0"},
	{"load: archive", "demo.tar", nil, "plugin load DIR/demo.tar"},
	{"load: oci-layout", "layout/oci-layout", nil, "plugin load DIR/layout"},
	{"load: index", "layout/index.json", map[string]string{"layout/oci-layout": `{"imageLayoutVersion":"1.0.0"}`}, "plugin load DIR/layout"},
	{"load: blob", "layout/blobs/sha256/" + zeros, map[string]string{
		"layout/oci-layout": `{"imageLayoutVersion":"1.0.0"}`,
		"layout/index.json": `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:` + zeros + `","size":9}]}`,
	}, "plugin load DIR/layout"},
	{"test: cases", "demo_test.yaml", nil, "plugin test DIR"},
	{"test: module", "demo.wasm", map[string]string{"demo_test.yaml": clitest.Cases}, "plugin test DIR"},
	{"test: session", "session.yaml", map[string]string{"demo.wasm": "MODULE", "demo_test.yaml": strings.Split(clitest.Cases, "- name")[0] + "- name: a\n  replay: session.yaml\n"}, "plugin test DIR"},
	{"fuzz: cases", "demo_test.yaml", nil, "plugin fuzz DIR/demo_test.yaml"},
	{"fuzz: module", "demo.wasm", map[string]string{"demo_test.yaml": clitest.Cases}, "plugin fuzz DIR/demo_test.yaml"},
	{"build: plugin.yaml", "plugin.yaml", map[string]string{"main.c": ""}, "plugin build DIR"},
	{"vet: module", "demo.wasm", map[string]string{"plugin.yaml": clitest.Manifest, "demo.wat": ""}, "plugin vet DIR"},
	{"vet: Go source", "main.go", map[string]string{"plugin.yaml": clitest.Manifest}, "plugin vet DIR"},
	{"vet: source", "main.c", map[string]string{"plugin.yaml": clitest.Manifest}, "plugin vet DIR"},
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestPipeWithoutWriterIsAnError(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, key, _ := clitest.Run(nil, "plugin", "keygen", "-o", filepath.Join(t.TempDir(), "ops.key"))
	for _, c := range withoutWriter {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			pipe := filepath.Join(dir, c.pipe)
			files := make(map[string]string)
			for name, text := range c.files {
				files[name] = strings.NewReplacer("FIFO", pipe, "MODULE", clitest.Module(t, 0), "KEY", key).Replace(text)
			}
			clitest.WriteTree(t, dir, files)
			if err := os.MkdirAll(filepath.Dir(pipe), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.pipe, "prober-plugin-demo.yaml") {
				chmod(t, strings.TrimSuffix(pipe, ".yaml"), 0o700)
			}
			if strings.HasSuffix(c.pipe, "prober-plugin-demo") {
				chmod(t, pipe, 0o700)
			}
			code, output := inTime(t, pipe, dir, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir)))
			if !strings.Contains(output, "regular file") || !strings.Contains(output, filepath.Base(c.pipe)) {
				t.Errorf("exit code %d, and the output does not name the pipe:\n%s", code, output)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// inTime runs a command line. If it waits for a writer of pipe, the test fails, and pipe gets one.
func inTime(t *testing.T, pipe, dir string, args []string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	ended := make(chan int, 1)
	signals := make(chan os.Signal, 1)
	go func() {
		ended <- cli.Main(command.Env{
			Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			LookupEnv: func(name string) (string, bool) { return filepath.Join(dir, "docker"), name == "DOCKER_CONFIG" },
			Notify:    func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} },
		})
	}()
	select {
	case code := <-ended:
		return code, out.String()
	case <-time.After(10 * time.Second):
	}
	t.Errorf("%q waits for a writer", args)
	signals <- os.Interrupt // ends an agent that has come so far
	for {
		w, err := os.OpenFile(pipe, os.O_RDWR, 0) // does not wait for a reader
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		select {
		case code := <-ended:
			return code, out.String()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestRunWaitingForPipeStopsOnSignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pod.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code, _, stderr := clitest.Run(signals, "run", "--listen", "127.0.0.1:0", "-f", pipe)
	if code != 1 || !strings.Contains(stderr, "stopped by SIGTERM") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // unblocks the reader
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestValidateReadsPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pod.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := os.WriteFile(pipe, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: P}\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	if code, stdout, _ := clitest.Run(nil, "validate", pipe); code != 1 || !strings.Contains(stdout, "pod.yaml:3: metadata.name") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
