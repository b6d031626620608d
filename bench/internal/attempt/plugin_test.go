package attempt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/bench/internal/attempt"
	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
)

// TestEveryPluginSucceeds uses the guest in Go also as the guest in C, which would need clang.
func TestEveryPluginSucceeds(t *testing.T) {
	dir := t.TempDir()
	guest, process := filepath.Join(dir, "go.wasm"), filepath.Join(dir, "prober-plugin-tester")
	build := func(source, out string, env []string, flags ...string) {
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, flags...), "-o", out, source)...)
		cmd.Dir, cmd.Env = "../../..", append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	build("./handlers/wasm/testdata/hello", guest, []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared")
	build("./handlers/process/testdata/plugin", process, nil)
	var runs []record.Run
	request := attempt.PluginRequest{C: guest, Go: guest, Process: process, Rounds: 1, Seconds: 0.05}
	if err := child.Run(t.Context(), attempt.PluginJob, request, &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 10 {
		t.Errorf("%d runs, want one of each subject", len(runs))
	}
	for _, r := range runs {
		figure := "p50-us"
		switch r.Subject {
		case attempt.Cached, attempt.BareCached, attempt.ProcessStart, attempt.ProcessAlone:
			figure = "start-ms"
		}
		if r.Error != "" || r.Figures[figure] <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
