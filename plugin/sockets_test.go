package plugin_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func TestSocketsAreNotFarAway(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // has no /tmp
	}
	for name, temp := range map[string]string{"short": t.TempDir(), "long": t.TempDir() + strings.Repeat("/.", 50)} {
		t.Setenv("TMPDIR", temp)
		at := plugin.SocketTemp()
		if short := len(temp) <= 64; short != (at == temp) {
			t.Errorf("%s: %s for %s", name, at, temp)
		}
		dir, err := os.MkdirTemp(at, "plugin-dir")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l, err := net.Listen("unix", filepath.Join(dir, "plugin0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
