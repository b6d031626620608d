//go:build unix

package ownership_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/ownership"
)

func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := ownership.PrivateDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(dir, 0o720); err != nil {
		t.Fatal(err)
	}
	if err := ownership.PrivateDir(dir); err == nil || !strings.Contains(err.Error(), "is writable to others (mode 0720)") {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := ownership.PrivateDir(link); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Error(err)
	}
}

// The owner of a folder can replace its files, regardless of its mode.
func TestCheckPath(t *testing.T) {
	const nobody = 65534
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		want  string
	}{
		"own":                      {0o755, os.Geteuid(), ""},
		"own, of everybody":        {0o777, os.Geteuid(), "is writable to others"},
		"own, of its group":        {0o775, os.Geteuid(), "is writable to others"},
		"own, sticky":              {0o777 | os.ModeSticky, os.Geteuid(), ""},
		"of another user":          {0o755, nobody, "belongs to user 65534"},
		"of another user, private": {0o700, nobody, "belongs to user 65534"},
		"of another user, sticky":  {0o777 | os.ModeSticky, nobody, "belongs to user 65534"},
	} {
		if c.owner != os.Geteuid() && os.Geteuid() != 0 {
			continue // only root can create it
		}
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			path := filepath.Join(folder, "inner", "file")
			link := filepath.Join(t.TempDir(), "link")
			if err := errors.Join(
				os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Symlink(path, link),
				os.Chown(folder, c.owner, -1), os.Chmod(folder, c.mode),
			); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{path, link} {
				if err := ownership.CheckPath(at); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), folder+" "+c.want)) {
					t.Errorf("%s: %v", at, err)
				}
			}
		})
	}
}
