//go:build unix

package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The reports of the files that were tested before a signal came are not lost. The second
// plugin is a pipe: whoever writes to it knows that the first one is done. It comes to no end,
// so that the signal does.
func TestASignalLeavesTheReports(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a/demo.wasm": verdictModule(t, 0), "a/demo_test.yaml": demoCases, "b/demo_test.yaml": demoCases,
	})
	pipe := filepath.Join(dir, "b/demo.wasm")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	signals, endless := make(chan os.Signal, 1), spinningModule(t)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			signals <- os.Interrupt
			_, err = f.WriteString(endless)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}()
	code, stdout, stderr := run(signals, "plugin", "test", "--run", "well", dir)
	if code != 1 || !strings.Contains(stdout, "1 passed, 0 failed") || !strings.HasSuffix(stderr, "prober: error: stopped by SIGINT\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
