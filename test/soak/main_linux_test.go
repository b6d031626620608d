//go:build soak

package soak

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	soakTime = flag.Duration("soak", time.Minute, "how long the soak lasts")
	kills    = flag.Int("kills", 100, "how often the agent is killed")
	probes   = flag.Int("probes", 300, "about how many healthy probes there are")
	idle     = flag.Bool("idle", false, "leave the machine idle")
	logFile  = flag.String("log", "", "file that gets what was read of the agent's log")
)

// The programs that this binary is as a child process.
const (
	asTargets = "__targets"
	asBusy    = "__busy"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == asTargets || os.Args[1] == asBusy) {
		go func() { // ends with the test
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		if os.Args[1] == asTargets {
			serveTargets()
		}
		beBusy()
	}
	flag.Parse()
	os.Exit(m.Run())
}

// need ends t if bin/prober is missing.
func need(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(binary); err != nil {
		t.Fatal(err, "; make build")
	}
}

const (
	binary  = "../../bin/prober"
	plugins = "../../bin/plugins"
)

// child starts this binary as the program what, under the command before. It ends with t.
func child(t *testing.T, what string, before ...string) *bufio.Reader {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, self, what)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return bufio.NewReader(stdout)
}

// load keeps the processors busy for the first half of each second, until t ends.
func load(t *testing.T) {
	if *idle {
		return
	}
	for range runtime.NumCPU() {
		child(t, asBusy)
	}
}

func beBusy() {
	for {
		now := time.Now()
		if now.Nanosecond() >= int(500*time.Millisecond) {
			time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
		}
	}
}

// pluginFolder returns a folder with the example plugins name, and the process plugin
// "tester".
func pluginFolder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		copyFile(t, filepath.Join(plugins, name+".wasm"), filepath.Join(dir, name+".wasm"))
	}
	path := filepath.Join(dir, "prober-plugin-tester")
	run(t, "go", "build", "-o", path, "../../handlers/process/testdata/plugin")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path+".yaml", "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n")
	return dir
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, to, data)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	putFile(t, path, []byte(text))
}

// putFile replaces a file in one step. The agent does not read the name of the temporary file.
func putFile(t *testing.T, path string, data []byte) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		t.Error(err)
		return
	}
	if err := os.Rename(temp, path); err != nil {
		t.Error(err)
	}
}

// figures is the table that a test prints at its end.
type figures struct{ lines []string }

func (f *figures) add(name, format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf("%-28s %s", name, fmt.Sprintf(format, args...)))
}

func (f *figures) print(title string) {
	fmt.Printf("\n%s\n  %s\n\n", title, strings.Join(f.lines, "\n  "))
}
