package plugincmd_test

import (
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/cli/command"
)

func TestPluginBench(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"demo/plugin.yaml": clitest.Manifest, "demo/demo.wasm": clitest.Module(t, 0), "demo/demo_test.yaml": clitest.Cases,
		"bare/demo.wasm":      clitest.Module(t, 1),
		"empty_test.yaml":     strings.Split(clitest.Cases, "- name: all")[0],
		"unbuilt/plugin.yaml": clitest.Manifest,
	})
	table := `(?m)^PLUGIN +MEASURED +TIMES +P50 +P99 +MEAN +MEMORY +DEADLINE +FUEL +RESULT
demo +load=cold +\d+ +\S+s +\S+s +\S+s +- +- +- +-
demo +load=cached +\d+ +\S+s +\S+s +\S+s +- +- +- +-
demo +isolation=fresh +\d+ +\S+s +\S+s +\S+s +64.0 KiB +fuel +\d+ +success
demo +isolation=reset +\d+ +\S+s +\S+s +\S+s +64.0 KiB +fuel +\d+ +success
demo +isolation=pooled +\d+ +\S+s +\S+s +\S+s +64.0 KiB +fuel +\d+ +success
$`
	for _, c := range []struct {
		args string
		code int
		want string // a pattern of stdout, or of stderr where the code is above 0
	}{
		{"DIR/demo", 0, table},
		{"DIR/demo/demo.wasm --count 2 -o benchstat", 0, `^goos: \w+\ngoarch: \w+\n` +
			`(BenchmarkPlugin/name=demo/(load=(cold|cached)|isolation=(fresh|reset|pooled)) \d+ \d+ ns/op \d+ p50-ns \d+ p99-ns( 0.0625 MiB \d+ fuel/op)?\n){10}$`},
		{"DIR/demo --checks", 0, `demo +isolation=pooled .* checks +- +success\n`},
		{"demo --plugins DIR --case DIR/demo/demo_test.yaml:it&fails", 0, table},
		{"DIR/bare/demo.wasm --target 127.0.0.1:1 --timeout 1m", 0, `demo +isolation=reset .* warning\n`},
		{"DIR/bare/demo.wasm", 64, "no target and no test case: stat DIR/bare/demo_test.yaml: no such file"},
		{"DIR/demo --case DIR/demo/demo_test.yaml:nosuch", 64, `no case is named "nosuch"\nprober: hint: known: it fails, all is well\n`},
		{"DIR/demo --case DIR/nosuch", 64, "DIR/nosuch: no such file or directory\nprober: hint: --case takes FILE or FILE:NAME"},
		{"DIR/demo --case DIR/empty_test.yaml", 64, "DIR/empty_test.yaml: no case expects a success"},
		{"DIR/demo --case DIR/demo/demo_test.yaml --target a:1", 64, "--target and --case: only one of the two can be given"},
		{"DIR/demo --config {\"a\":1}", 64, "--config and --grant: there is no --target"},
		{"DIR/demo --count 0", 64, "--time, --timeout and --count: must be above 0"},
		{"DIR/unbuilt", 64, "DIR/unbuilt/demo.wasm: no such file or directory\nprober: hint: `prober plugin build` builds"},
	} {
		args := strings.Fields("plugin bench --time 5ms " + strings.ReplaceAll(c.args, "DIR", dir))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "&", " ")
		}
		code, stdout, stderr := clitest.Run(nil, args...)
		text := stdout
		if c.code != 0 {
			text = stderr
		}
		if code != c.code || !regexp.MustCompile(strings.ReplaceAll(c.want, "DIR", dir)).MatchString(text) {
			t.Errorf("%s: exit code %d\n%s%s\nwant\n%s", c.args, code, stdout, stderr, c.want)
		}
	}
}

func TestBenchAndTestStopOnSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": clitest.Module(t, 0), "demo_test.yaml": clitest.Cases})
	for _, args := range [][]string{{"bench", "--time", "1h"}, {"test"}} {
		signals := make(chan os.Signal, 1)
		signals <- os.Interrupt
		code, stdout, stderr := clitest.Run(signals, append([]string{"plugin", args[0], dir}, args[1:]...)...)
		if code != 1 || stdout != "" || !strings.HasSuffix(stderr, "prober: error: stopped by SIGINT\n") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args[0], code, stdout, stderr)
		}
	}
}

// interruptedCache makes a cache for a command that a signal stops. The running compilation is not awaited,
// and may write to the folder while the test removes it.
func interruptedCache(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "prober-cli-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for os.RemoveAll(dir) != nil {
			runtime.Gosched()
		}
	})
	t.Setenv("XDG_CACHE_HOME", dir)
}

// onText calls do whenever a line that contains text is written.
type onText struct {
	strings.Builder
	text string
	do   func()
}

func (w *onText) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.do()
	}
	return w.Builder.Write(p)
}

// After a signal, the previous measurements and test results are still printed.
func TestBenchPrintsSamplesAfterSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": clitest.Manifest, "demo.wasm": clitest.Module(t, 0), "demo_test.yaml": clitest.Cases})
	signals := make(chan os.Signal, 1)
	rounds := 0
	stderr := &onText{text: "load=cold", do: func() {
		if rounds++; rounds == 2 {
			signals <- os.Interrupt
		}
	}}
	var stdout strings.Builder
	code := cli.Main(command.Env{
		Args: []string{"plugin", "bench", dir, "--time", "1ms", "--count", "1000000"}, LookupEnv: clitest.Toolchains,
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: stderr,
		Notify: func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} },
	})
	if code != 1 || !strings.Contains(stdout.String(), "isolation=pooled") || !strings.HasSuffix(stderr.String(), "prober: error: stopped by SIGINT\n") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr.Builder)
	}
}
