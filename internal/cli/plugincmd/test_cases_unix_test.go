//go:build unix

package plugincmd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// After a signal, the reports of the previously tested files are written. The second plugin is a program that
// signals its start, and then does nothing.
func TestTestPrintsReportsAfterSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "started")
	clitest.WriteTree(t, dir, map[string]string{
		"a/demo.wasm": clitest.Module(t, 0), "a/demo_test.yaml": clitest.Cases,
		"b/prober-plugin-demo": "#!/bin/sh\necho yes >" + pipe + "\nexec sleep 600\n", "b/prober-plugin-demo.yaml": clitest.Manifest,
		"b/demo_test.yaml": strings.Replace(clitest.Cases, "demo.wasm", "prober-plugin-demo", 1),
	})
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chmod(filepath.Join(dir, "b/prober-plugin-demo"), 0o700)); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	go func() {
		if _, err := os.ReadFile(pipe); err != nil {
			t.Error(err)
		}
		signals <- os.Interrupt
	}()
	code, stdout, stderr := clitest.Run(signals, "plugin", "test", "--run", "well", dir)
	if code != 1 || !strings.Contains(stdout, "1 passed, 0 failed") || !strings.HasSuffix(stderr, "prober: error: stopped by SIGINT\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
