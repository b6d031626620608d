package wasm_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// TestLoadWithoutUsableCache checks that an unusable cache is logged and fails no plugin, and that a
// damaged file is written again.
func TestLoadWithoutUsableCache(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, folder string
		spoil        func(t *testing.T)
		want         string
	}{
		{"whole", filepath.Join(dir, "a"), func(*testing.T) {}, ""},
		{"damaged", filepath.Join(dir, "a"), func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "a", "*", "*", "*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%q, %v", files, err)
			}
			if err := os.WriteFile(files[0], bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ""}, // compiled again
		{"cannot be written", filepath.Join(dir, "b"), func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "b")), os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "cannot be kept in the cache folder, or read from it"},
		{"others may write", filepath.Join(dir, "c"), func(t *testing.T) {
			if err := os.Chmod(filepath.Join(dir, "c"), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "is writable to others"},
		{"cannot be made", os.DevNull + "/cache", func(*testing.T) {}, "there is no cache folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			h, err := wasm.New(wasm.Config{CacheDir: c.folder, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			c.spoil(t)
			p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: plugin.Minimal("ok")})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := attempt(t, p, probe.Request{}, time.Minute); err != nil || got.Result != probe.Success {
				t.Errorf("got %+v, %v", got, err)
			}
			if c.want == "" && log.Len() > 0 || !strings.Contains(log.String(), c.want) {
				t.Errorf("%q is not in the log:\n%s", c.want, &log)
			}
		})
	}
}

// TestDeletedCacheFolderIsMadeAgain also checks that the path of the cache has the version of wazero.
func TestDeletedCacheFolderIsMadeAgain(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "cache")
	h, err := wasm.New(wasm.Config{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: plugin.Minimal("ok")}); err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`wazero (v\S+)`).FindSubmatch(gomod)
	if kept, err := filepath.Glob(filepath.Join(dir, string(version[1]), "*", "*")); err != nil || len(kept) != 1 || log.Len() > 0 {
		t.Errorf("kept are %q, %v; the log:\n%s", kept, err, &log)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
}
