package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/daeace23/prober/internal/regular"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	check := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o646 {
			t.Errorf("mode %v, %v; want 0646", info.Mode(), err)
		}
		if all, err := os.ReadDir(dir); len(all) != 1 || err != nil {
			t.Errorf("files: %v, %v; want 1", all, err)
		}
	}
	for _, want := range []string{"created", "replaced"} {
		if err := regular.ReplaceBytes(path, 0o646, []byte(want)); err != nil {
			t.Fatal(err)
		}
		check(want)
	}
	failed := errors.New("failed")
	err := regular.Replace(path, 0o646, func(f *os.File) error {
		_, err := f.WriteString("part")
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	check("replaced")
}

func TestReplaceDirectoryIsError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := regular.ReplaceBytes(path, 0o600, nil); err == nil {
		t.Error("no error")
	}
	if all, err := os.ReadDir(dir); len(all) != 1 || err != nil {
		t.Errorf("files: %v, %v; want 1", all, err)
	}
}

func TestReplaceBytesInStaysInRoot(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "in"), 0o700), os.MkdirAll(filepath.Join(dir, "out"), 0o700), os.Symlink("../out", filepath.Join(dir, "in/link")),
		os.WriteFile(filepath.Join(dir, "in/.a.new"), []byte("of an interrupted call"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 2 {
		if err := regular.ReplaceBytesIn(root, "a", 0o640, []byte("text")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := regular.ReadIn(root, "a", 10); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if err := regular.ReplaceBytesIn(root, "link/a", 0o640, nil); err == nil {
		t.Error("a file outside was written")
	}
	for name, want := range map[string]int{"in": 2, "out": 0} {
		if all, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(all) != want {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}
