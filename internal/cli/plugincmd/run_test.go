package plugincmd_test

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
)

func TestPluginRun(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": clitest.Module(t, 1)})
	code, stdout, stderr := clitest.Run(nil, "plugin", "run", dir, "--target", "127.0.0.1:1", "-o", "json", "--timeout", "1m")
	if code != 1 || !strings.Contains(stdout, `"result": "warning"`) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = clitest.Run(nil, "plugin", "run", dir, "--watch", "--config", "@"+dir+"/nosuch.json")
	if code != 64 || !strings.Contains(stderr, "--config: open "+dir+"/nosuch.json: no such file") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// resultModule returns a guest whose result document is doc, of fewer than 64 bytes.
func resultModule(t *testing.T, doc string) string {
	t.Helper()
	size := string(rune(len(doc)))
	module := "\x00asm\x01\x00\x00\x00" +
		"\x01\x0b\x02\x60\x00\x01\x7f\x60\x02\x7f\x7f\x01\x7f" + // () -> i32, (i32, i32) -> i32
		"\x02\x1a\x01\x09prober_v1\x0cresult_write\x00\x01" +
		"\x03\x02\x01\x00" + // one function
		"\x05\x03\x01\x00\x01" + // one page of memory
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x01" +
		"\x0a\x0d\x01\x0b\x00\x41\x00\x41" + size + "\x10\x00\x1a\x41\x00\x0b" + // call, drop, 0
		"\x0b" + string(rune(6+len(doc))) + "\x01\x00\x41\x00\x0b" + size + doc
	out, err := plugin.Embed([]byte(module), []byte(clitest.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestPluginRunShowsDetails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": resultModule(t, `{"message":"m","details":{"role":"main"}}`)})
	for format, want := range map[string]string{"json": "\"details\": {\n    \"role\": \"main\"\n  }", "yaml": "details:\n  role: main\n"} {
		code, stdout, stderr := clitest.Run(nil, "plugin", "run", dir, "--target", "127.0.0.1:1", "-o", format, "--timeout", "1m")
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
	}
}

// replaceFile writes a file of dir as if the clock of the file system stood still.
func replaceFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if old, err := os.Stat(path); err == nil {
		if err := os.Chtimes(path+".new", time.Time{}, old.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// watching is a command with --watch that runs.
type watching struct {
	lines   *bufio.Scanner
	signals chan os.Signal
	ended   chan int
}

func watch(args ...string) *watching {
	out, in := io.Pipe()
	w := &watching{bufio.NewScanner(out), make(chan os.Signal, 2), make(chan int, 1)}
	go func() {
		code := cli.Main(command.Env{
			Args: args, LookupEnv: clitest.Toolchains, Stdin: strings.NewReader(""), Stdout: in, Stderr: in,
			Notify: func(...os.Signal) (<-chan os.Signal, func()) { return w.signals, func() {} },
		})
		in.Close()
		w.ended <- code
	}()
	return w
}

// await reads lines until one has a prefix.
func (w *watching) await(t *testing.T, prefix string) {
	t.Helper()
	for w.lines.Scan() {
		if strings.HasPrefix(w.lines.Text(), prefix) {
			return
		}
	}
	t.Fatalf("no line like %q", prefix)
}

// interrupt ends the command, which must succeed.
func (w *watching) interrupt(t *testing.T) {
	t.Helper()
	w.signals <- os.Interrupt
	w.await(t, "prober: stopped by SIGINT")
	if code := <-w.ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPluginRunWatch changes the module and the config while they are watched, breaks both, and repairs
// them.
func TestPluginRunWatch(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	replaceFile(t, dir, "plugin.yaml", clitest.Manifest)
	replaceFile(t, dir, "demo.wasm", clitest.Module(t, 0))
	replaceFile(t, dir, "config.json", "{}")
	w := watch("plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "1m", "--no-headers", "--config", "@"+dir+"/config.json", "--watch")
	w.await(t, "success ")
	replaceFile(t, dir, "demo.wasm", clitest.Module(t, 2))
	w.await(t, "prober: "+dir+"/demo.wasm has changed")
	w.await(t, "failure ")
	replaceFile(t, dir, "config.json", "{")
	w.await(t, "prober: "+dir+"/config.json has changed")
	w.await(t, "prober: error: --config: not valid JSON")
	replaceFile(t, dir, "config.json", `{"a": 1}`)
	w.await(t, "failure ")
	replaceFile(t, dir, "demo.wasm", "half a module")
	w.await(t, "prober: error: ")
	replaceFile(t, dir, "demo.wasm", clitest.Module(t, 3))
	w.await(t, "unknown ")
	w.interrupt(t)
}

// TestPluginTestWatch changes the module and the cases while they are watched, breaks both, and repairs them.
func TestPluginTestWatch(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	replaceFile(t, dir, "demo_test.yaml", clitest.Cases)
	code, _, stderr := clitest.Run(nil, "plugin", "test", dir, "--watch", "--update")
	if code != 64 || !strings.Contains(stderr, "[update watch]") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	w := watch("plugin", "test", dir, "--run", "well", "--watch")
	w.await(t, "prober: error: ") // no module yet
	replaceFile(t, dir, "demo.wasm", clitest.Module(t, 0))
	w.await(t, "prober: "+dir+"/demo.wasm has changed")
	w.await(t, "1 passed, 0 failed")
	replaceFile(t, dir, "demo.wasm", clitest.Module(t, 2))
	w.await(t, "0 passed, 1 failed")
	replaceFile(t, dir, "demo_test.yaml", "cases: {")
	w.await(t, "prober: "+dir+"/demo_test.yaml has changed")
	w.await(t, "prober: error: ")
	replaceFile(t, dir, "demo_test.yaml", strings.ReplaceAll(clitest.Cases, "success", "failure"))
	w.await(t, "1 passed, 0 failed")
	w.interrupt(t)
}

// A signal that stops the probe also stops the watch. It is not an error if the probe receives it first.
func TestWatchStopsOnSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": spinningModule(t), "config.json": "{}"})
	listening := make(chan chan<- os.Signal, 3) // signal channels: of the watch first, then of each probe
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := cli.Main(command.Env{
			Args: []string{"plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "1h", "--no-headers",
				"--config", "@" + dir + "/config.json", "--watch"},
			LookupEnv: clitest.Toolchains, Stdin: strings.NewReader(""), Stdout: in, Stderr: in,
			Notify: func(...os.Signal) (<-chan os.Signal, func()) {
				c := make(chan os.Signal, 1)
				listening <- c
				return c, func() {}
			},
		})
		in.Close()
		ended <- code
	}()
	watch, probe := <-listening, <-listening
	probe <- os.Interrupt
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		if strings.HasPrefix(s.Text(), "unknown ") && len(lines) == 1 {
			clitest.WriteTree(t, dir, map[string]string{"config.json": "{ }"})
		}
		if strings.HasSuffix(s.Text(), "has changed") {
			watch <- os.Interrupt
		}
	}
	want := []string{"prober: " + dir + "/config.json has changed", "prober: stopped by SIGINT"}
	if len(lines) < 3 || lines[1] != want[0] || lines[len(lines)-1] != want[1] || strings.Contains(strings.Join(lines, "\n"), "error") {
		t.Errorf("got %q, want %q after the verdict", lines, want)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// spinningModule is a plugin called demo that loops for ever.
func spinningModule(t *testing.T) string {
	t.Helper()
	out, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x05\x03\x01\x00\x01"+
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00"+
		"\x0a\x0b\x01\x09\x00\x03\x40\x0c\x00\x0b\x41\x00\x0b"), []byte(clitest.Manifest)) // loop, br 0
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// An incomplete session does not replace a previous one.
func TestRecordWritesNothingAfterSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": spinningModule(t), "session.yaml": "whole"})
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	code, _, stderr := clitest.Run(signals, "plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "10m", "--record", dir+"/session.yaml")
	want := "prober: nothing was recorded: the probe did not finish\nprober: error: stopped by SIGINT\n"
	if data, err := os.ReadFile(dir + "/session.yaml"); code != 3 || stderr != want || string(data) != "whole" {
		t.Errorf("exit code %d, stderr %q, recorded %q, %v", code, stderr, data, err)
	}
}

func TestRecordWriteErrorIsUsageError(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": clitest.Module(t, 2)})
	code, stdout, stderr := clitest.Run(nil, "plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "1m", "--record", dir)
	if want := "prober: error: --record: open " + dir + ": is a directory\n"; code != 64 || stderr != want || !strings.Contains(stdout, "failure") {
		t.Errorf("exit code %d, stderr %q, want %q", code, stderr, want)
	}
}

// The suggested test case has a valid path of the session, from any working folder.
func TestRecordPrintsPathForCase(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, other := t.TempDir(), t.TempDir()
	t.Chdir(other)
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": clitest.Module(t, 0)})
	for file, want := range map[string]string{dir + "/data/session.yaml": "data/session.yaml", "session.yaml": other + "/session.yaml"} {
		_, _, stderr := clitest.Run(nil, "plugin", "run", dir, "--target", "127.0.0.1:1", "--timeout", "1m", "--record", file)
		if !strings.HasSuffix(stderr, "  replay: "+want+"\n") {
			t.Errorf("--record %s: %q, want %s", file, stderr, want)
		}
	}
}
