package wasm_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
)

func TestLoadWithoutMemoryNamesTotalMemory(t *testing.T) {
	for _, total := range []uint64{1 << 10, 1 << 16} { // no room for a page; no room for the image
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), TotalMemory: total, Interpreter: true})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		_, err = h.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: plugin.Minimal("ok")})
		if !errors.Is(err, wasm.ErrNoInstance) || !strings.HasSuffix(err.Error(), "totalMemory, which all plugins share, leaves no room for its first") {
			t.Errorf("%d bytes: got %v", total, err)
		}
	}
}
