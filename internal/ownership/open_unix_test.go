//go:build unix

package ownership_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/ownership"
)

// TestOpenFile opens each kind of file with each combination of flags. Refused files stay unchanged.
func TestOpenFile(t *testing.T) {
	const nobody = 65534
	root := os.Geteuid() == 0
	for _, c := range []struct {
		name string
		make func(path, victim string) error
		want bool
	}{
		{"regular", func(path, _ string) error { return os.WriteFile(path, []byte("precious"), 0o600) }, true},
		{"regular of the group", func(path, _ string) error {
			return errors.Join(os.WriteFile(path, []byte("precious"), 0o600), os.Chmod(path, 0o660))
		}, true},
		{"regular of everybody", func(path, _ string) error {
			return errors.Join(os.WriteFile(path, []byte("precious"), 0o600), os.Chmod(path, 0o666))
		}, false},
		{"of another user", func(path, _ string) error {
			return errors.Join(os.WriteFile(path, []byte("precious"), 0o600), os.Chown(path, nobody, nobody))
		}, false},
		{"link", func(path, victim string) error { return os.Symlink(victim, path) }, false},
		{"link to nothing", func(path, victim string) error { return os.Symlink(victim+".none", path) }, false},
		{"pipe", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }, false},
		{"folder", func(path, _ string) error { return os.Mkdir(path, 0o700) }, false},
	} {
		if c.name == "of another user" && !root {
			continue // only root can create it
		}
		for name, flag := range map[string]int{
			"read": os.O_RDONLY, "write": os.O_WRONLY | os.O_CREATE, "both": os.O_RDWR | os.O_CREATE, "truncate": os.O_RDWR | os.O_CREATE | os.O_TRUNC,
		} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				path, victim := filepath.Join(dir, "file"), filepath.Join(dir, "victim")
				if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), c.make(path, victim)); err != nil {
					t.Fatal(err)
				}
				f, err := ownership.OpenFile(path, flag, 0o600)
				if f != nil {
					defer f.Close()
				}
				if (err == nil) != c.want {
					t.Errorf("got %v", err)
				}
				if _, is := errors.AsType[*fs.PathError](err); err != nil && !is {
					t.Errorf("%T has no path", err)
				}
				if text, err := os.ReadFile(victim); string(text) != "precious" {
					t.Errorf("the victim has %q, %v", text, err)
				}
				if _, err := os.Lstat(victim + ".none"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a link made a file: %v", err)
				}
				if !c.want {
					return
				}
				if text, err := os.ReadFile(path); string(text) != "precious" {
					t.Errorf("the file has %q, %v", text, err)
				}
			})
		}
	}
	path := filepath.Join(t.TempDir(), "new")
	f, err := ownership.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := ownership.OpenFile(path+".none", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestOwnDir(t *testing.T) {
	dir := t.TempDir()
	own, link, file := filepath.Join(dir, "own"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(t.TempDir(), link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := ownership.OwnDir(own); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{link, file, filepath.Join(dir, "none", "a")} {
		if err := ownership.OwnDir(path); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := ownership.OwnDir(own); err == nil {
		t.Error("a folder of everybody: no error")
	}
}
