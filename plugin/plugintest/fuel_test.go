package plugintest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// fuelOf is an environment variable: the module whose fuel a process of TestFuelIsSameInEachProcess
// prints.
const fuelOf = "PLUGINTEST_FUEL_OF"

// A check in Go consumes the same fuel in each call, on each host and in each process, if time, random bytes
// and replies are the same.
func TestFuelIsSameInEachProcess(t *testing.T) {
	if race {
		t.Skip("the redis example takes minutes to compile under the race detector")
	}
	module := os.Getenv(fuelOf)
	if module != "" {
		fmt.Println(fuelOfRedis(t, module))
		return
	}
	module = filepath.Join(t.TempDir(), "redis.wasm")
	build := exec.Command("go", "build", "-C", filepath.Join(examplesFolder, "redis"), "-buildmode=c-shared", "-o", module, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := fuelOfRedis(t, module)
	if got := fuelOfRedis(t, module); got != want {
		t.Errorf("on another host: got %s, want %s", got, want)
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), fuelOf+"="+module)
	text, err := again.CombinedOutput()
	if got := regexp.MustCompile(`(?m)^fuel .*$`).FindString(string(text)); err != nil || got != want {
		t.Errorf("in another process: got %q, %v, want %q\n%s", got, err, want, text)
	}
}

// fuelOfRedis returns the fuel of the first calls of the redis example, by isolation. All calls that begin
// with a fresh memory consume the same.
func fuelOfRedis(t *testing.T, path string) string {
	t.Helper()
	f, err := plugintest.Load(filepath.Join(examplesFolder, "redis", "redis_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	all.WriteString("fuel")
	for _, isolation := range []plugin.Isolation{plugin.Fresh, plugin.Reset, plugin.Pooled} {
		m := plugin.Minimal("redis")
		m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
		m.Requests = []plugin.Request{{Capability: plugin.CapabilityNet, Allow: []string{"target"}}}
		b, err := plugintest.NewBench(t.Context(), &f.Cases[0], module, m, plugintest.Config{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		first := uint64(0)
		for range 3 {
			before := b.Fuel()
			if out, _, err := b.Call(t.Context()); err != nil || out.Result != probe.Success {
				t.Fatal(out, err)
			}
			used := b.Fuel() - before
			if first == 0 {
				first = used
			}
			if used == 0 || used != first && isolation != plugin.Pooled {
				t.Errorf("%s: a call took %d units, the first one %d", isolation, used, first)
			}
			fmt.Fprintf(&all, " %d", used)
		}
	}
	return all.String()
}
