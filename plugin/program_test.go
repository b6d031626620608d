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

// processFolder returns a folder with a program, the plugin "disk".
func processFolder(t *testing.T, manifest string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "prober-plugin-disk")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if manifest != "" {
		if err := os.WriteFile(path+".yaml", []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, path
}

const diskManifest = "apiVersion: prober.dev/v1\nname: disk\nversion: 1.2.3\n"

func TestFindProcess(t *testing.T) {
	dir, path := processFolder(t, diskManifest)
	found, err := plugin.Find([]string{dir})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v; want one plugin", found, err)
	}
	f := found[0]
	if f.Manifest.Name != "disk" || f.Manifest.Runtime != plugin.Process || f.Path != path || f.Digest != plugin.Digest([]byte("#!/bin/sh\n")) {
		t.Errorf("got %+v of %+v", f.Manifest, f)
	}
}

func TestFindProcessErrors(t *testing.T) {
	for want, spoil := range map[string]func(path string) error{
		"its manifest, prober-plugin-disk.yaml, is not beside it": func(path string) error { return os.Remove(path + ".yaml") },
		"prober-plugin-disk is writable to others (mode 0770)":    func(path string) error { return os.Chmod(path, 0o770) },
		"prober-plugin-disk.yaml is writable to others":           func(path string) error { return os.Chmod(path+".yaml", 0o602) },
		"prober-plugin-disk is not executable":                    func(path string) error { return os.Chmod(path, 0o600) },
		"its runtime is wasm, must be process for a program": func(path string) error {
			return os.WriteFile(path+".yaml", []byte(diskManifest+"runtime: wasm\n"), 0o600)
		},
		"unknown value \"jar\"; known: nagios, process, wasm": func(path string) error {
			return os.WriteFile(path+".yaml", []byte(diskManifest+"runtime: jar\n"), 0o600)
		},
	} {
		dir, path := processFolder(t, diskManifest)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		found, err := plugin.Find([]string{dir})
		if err == nil || !strings.Contains(err.Error(), want) || len(found) > 0 {
			t.Errorf("got %v, %v; want %s", found, err, want)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can change the owner of files
	}
	dir, path := processFolder(t, diskManifest)
	if err := os.Chown(path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if found, err := plugin.Find([]string{dir}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestModuleWithProcessManifestIsError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "disk"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "disk", "plugin.yaml"), []byte(diskManifest+"runtime: process\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plugin.Find([]string{dir}); err == nil || !strings.Contains(err.Error(), "its manifest says that its runtime is process") {
		t.Errorf("got %v", err)
	}
}

func TestSocketTempIsShort(t *testing.T) {
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
