package cli_test

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli"
)

func TestPluginRun(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"plugin.yaml": demoManifest, "demo.wasm": verdictModule(t, 1)})
	code, stdout, stderr := run(nil, "plugin", "run", dir, "--target", "127.0.0.1:1", "-o", "json", "--timeout", "1m")
	if code != 1 || !strings.Contains(stdout, `"result": "warning"`) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = run(nil, "plugin", "run", dir, "--watch", "--config", "@"+dir+"/nosuch.json")
	if code != 64 || !strings.Contains(stderr, "--config: open "+dir+"/nosuch.json: no such file") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestPluginRunWatch changes the module and the config while they are watched, breaks
// both, and mends them.
func TestPluginRunWatch(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("plugin.yaml", demoManifest)
	write("demo.wasm", verdictModule(t, 0))
	write("config.json", "{}")

	out, in := io.Pipe()
	signals := make(chan os.Signal, 2)
	ended := make(chan int, 1)
	go func() {
		code := cli.Main(cli.Env{
			Args: []string{"plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "1m", "--no-headers",
				"--config", "@" + dir + "/config.json", "--watch"},
			LookupEnv: toolchains, Stdin: strings.NewReader(""), Stdout: in, Stderr: in,
			Notify: func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} },
		})
		in.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(out)
	await := func(prefix string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return
			}
		}
		t.Fatalf("no line like %q", prefix)
	}
	await("success ")
	write("demo.wasm", verdictModule(t, 2))
	await("prober: " + dir + "/demo.wasm has changed")
	await("failure ")
	write("config.json", "{")
	await("prober: " + dir + "/config.json has changed")
	await("prober: error: --config: not valid JSON")
	write("config.json", `{"a": 1}`)
	await("failure ")
	write("demo.wasm", "half a module")
	await("prober: error: ")
	write("demo.wasm", verdictModule(t, 3))
	await("unknown ")
	signals <- os.Interrupt
	await("prober: stopped by SIGINT")
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
