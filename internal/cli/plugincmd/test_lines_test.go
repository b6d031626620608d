package plugincmd_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/wasmfile"
)

// TestPluginTestCoverProfile tests a module whose whole code is from line 7 of main.c.
func TestPluginTestCoverProfile(t *testing.T) {
	sized := func(text string) string {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	const header = "\x01\x01\x01\xfb\x0e\x0d\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01\x00main.c\x00\x00\x00\x00\x00"
	const program = "\x00\x05\x02\x02\x00\x00\x00" + "\x03\x06\x01" + "\x02\x80\x10" + "\x00\x01\x01" // at byte 2: line 7, for 2048 bytes
	module, err := wasmfile.WithCustom([]byte(clitest.Module(t, 0)), ".debug_line", []byte(sized("\x04\x00"+sized(header)+program)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	clitest.WriteTree(t, dir, map[string]string{
		"demo/plugin.yaml": clitest.Manifest, "demo/demo.wasm": string(module), "demo/demo_test.yaml": clitest.Cases, "demo/main.c": "",
		"bare/plugin.yaml": clitest.Manifest, "bare/demo.wasm": clitest.Module(t, 0), "bare/demo_test.yaml": clitest.Cases,
	})
	code, stdout, stderr := clitest.Run(nil, "plugin", "test", "demo", "--run", "all is", "--cover-profile", "lines.info")
	if want := "\ndemo/main.c: 1 of 1 lines (100%)\ncoverage: the cases reach 1 of 1 lines (100%)\n"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("got %d\n%s%swant\n%s", code, stdout, stderr, want)
	}
	got, err := os.ReadFile(filepath.Join(dir, "lines.info"))
	if want := "TN:\nSF:demo/main.c\nDA:7,1\nLF:1\nLH:1\nend_of_record\n"; err != nil || string(got) != want {
		t.Errorf("got %v\n%swant\n%s", err, got, want)
	}
	code, _, stderr = clitest.Run(nil, "plugin", "test", "bare", "--run", "all is", "--cover-profile", "none.info")
	if _, err := os.Stat("none.info"); code != 1 || err == nil || !strings.Contains(stderr, "prober: error: --cover-profile: no plugin has lines") {
		t.Errorf("a module without lines: got %d, %v\n%s", code, err, stderr)
	}
	code, stdout, _ = clitest.Run(nil, "plugin", "test", "bare", "--run", "all is", "--profile")
	if code != 0 || !strings.Contains(stdout, "\nprofile: the cases take ") || strings.Contains(stdout, "coverage:") {
		t.Errorf("--profile: got %d\n%s", code, stdout)
	}
}
