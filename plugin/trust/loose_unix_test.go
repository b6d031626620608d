//go:build unix

package trust_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/trust"
)

// trusted writes a key and a lock below dir.
func trusted(t *testing.T, dir string) (keyFile, lockFile string) {
	t.Helper()
	keyFile, lockFile = filepath.Join(dir, "ops.pub"), filepath.Join(dir, trust.LockFile)
	lock, err := trust.NewLock(nil, nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{keyFile: private(t).PEM(), lockFile: lock} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return keyFile, lockFile
}

// readTrusted reads a key and a lock, and returns their errors by file.
func readTrusted(keyFile, lockFile string) map[string]error {
	_, keyErr := trust.ReadKeys([]string{keyFile})
	_, lockErr := trust.ReadLock(lockFile)
	return map[string]error{keyFile: keyErr, lockFile: lockErr}
}

func TestWritableTrustedFileIsError(t *testing.T) {
	keyFile, lockFile := trusted(t, t.TempDir())
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o640: true, 0o664: false, 0o660: false, 0o666: false, 0o602: false} {
		for file := range readTrusted(keyFile, lockFile) {
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
		}
		for file, err := range readTrusted(keyFile, lockFile) {
			want := fmt.Sprintf("%s is writable to others (mode %#o); `chmod go-w %s` keeps them out: they could change which keys are trusted", file, mode, file)
			if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with the mode %v: %v", file, mode, err)
			}
		}
	}
}

// A user with write access to a folder can replace a key, a parent folder, or a link in its path.
func TestTrustedFileInWritableFolderIsError(t *testing.T) {
	for _, c := range []struct {
		name   string
		folder string // whose mode is changed
		mode   os.FileMode
		ok     bool
	}{
		{"private", "a/b/keys", 0o700, true},
		{"readable", "a/b/keys", 0o755, true},
		{"group-writable", "a/b/keys", 0o775, false},
		{"world-writable", "a/b/keys", 0o757, false},
		{"sticky", "a/b/keys", 0o777 | os.ModeSticky, true},
		{"folder above, group-writable", "a/b", 0o770, false},
		{"folder above, world-writable", "a", 0o777, false},
		{"folder above, sticky", "a", 0o777 | os.ModeSticky, true},
		{"folder of a link", "links", 0o775, false},
		{"folder of a link to a folder", "links/more", 0o775, false},
		{"folder that no way leads through", "a/other", 0o777, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range []string{"a/b/keys", "a/other", "links/more"} {
				if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			trusted(t, filepath.Join(dir, "a/b/keys"))
			for link, to := range map[string]string{
				"links/more/b": filepath.Join(dir, "a/other/../b"), "links/ops.pub": "more/b/keys/ops.pub", "links/" + trust.LockFile: "./more/b/keys/" + trust.LockFile,
			} {
				if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			loose := filepath.Join(dir, c.folder)
			if err := os.Chmod(loose, c.mode); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"links", "a/b/keys"} {
				ok := c.ok || at == "a/b/keys" && strings.HasPrefix(c.folder, "links")
				for file, err := range readTrusted(filepath.Join(dir, at)+"/ops.pub", filepath.Join(dir, at)+"/"+trust.LockFile) {
					want := fmt.Sprintf("%s is writable to others (mode %#o); `chmod go-w %s`", loose, c.mode.Perm(), loose)
					if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %v", file, err)
					}
				}
			}
		})
	}
}

// In a folder such as /tmp, each user can create a file before its owner does.
func TestTrustedFileOfOtherUserIsError(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root gives files away
	}
	dir := t.TempDir()
	keyFile, lockFile := trusted(t, dir)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for file := range readTrusted(keyFile, lockFile) {
		if err := os.Chown(file, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for file, err := range readTrusted(keyFile, lockFile) {
		if err == nil || !strings.Contains(err.Error(), file+" belongs to user 12345") {
			t.Errorf("%s: got %v", file, err)
		}
	}
}
