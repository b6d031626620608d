//go:build unix

package ownership_test

import (
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
