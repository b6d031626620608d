//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/regular"
)

func TestReadOtherThanRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		if _, err := regular.Read(path, 10); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("Read(%q) = %v, want ErrNotRegular", path, err)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := regular.Read(path, 10); string(data) != "0123456789" || err != nil {
		t.Errorf("Read = %q, %v", data, err)
	}
	_, err := regular.Read(path, 9)
	if large, ok := errors.AsType[*regular.TooLargeError](err); !ok || large.Max != 9 {
		t.Errorf("Read of more than 9 bytes: %v, want a TooLargeError", err)
	}
	if _, err := regular.Read(path+"x", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of a file that does not exist: %v, want ErrNotExist", err)
	}
}
