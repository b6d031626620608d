package pushcmd_test

import (
	"os"
	"strings"
	"testing"
)

// A full disk does not end the command.
func TestOutputToFullDisk(t *testing.T) {
	a := newFakeAgent(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	code, _, stderr := (&call{stdout: full}).run("push", "--server", a.URL, "backup", "--", "sh", "-c", "echo one; echo two")
	if report, _ := a.last(); code != 0 || stderr != "prober: warning: output of the command was lost: write /dev/full: no space left on device\n" || !strings.HasSuffix(report, ": two") {
		t.Errorf("exit code %d, %q, report %q", code, stderr, report)
	}
}
