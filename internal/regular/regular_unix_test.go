//go:build unix

package regular_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/regular"
)

func TestReadOfIrregularFileIsError(t *testing.T) {
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

func TestOpenIn(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"file", "link"} {
		f, err := regular.OpenIn(root, name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if data, err := regular.ReadAll(f, name, 4); string(data) != "text" || err != nil {
			t.Errorf("ReadAll of %q = %q, %v", name, data, err)
		}
	}
	for _, name := range []string{"pipe", "."} {
		if _, err := regular.OpenIn(root, name); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("OpenIn(%q) = %v, want ErrNotRegular", name, err)
		}
	}
}

func TestInputReadsPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := os.WriteFile(pipe, []byte("text"), 0); err != nil { // blocks until there is a reader
			t.Error(err)
		}
	}()
	if data, err := regular.Input(t.Context(), pipe, 4, regular.Patience); string(data) != "text" || err != nil {
		t.Errorf("Input = %q, %v", data, err)
	}
}

func TestInputWithoutWriterTimesOut(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := regular.Input(t.Context(), pipe, 4, time.Millisecond); err == nil || !strings.Contains(err.Error(), "its writer did not end within 1ms") {
		t.Errorf("Input = %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if _, err := regular.Input(ctx, pipe, 4, time.Hour); err == nil || err.Error() != "interrupted" {
		t.Errorf("Input with a context that has ended: %v", err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // unblocks the readers
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestReadNoLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "folder/file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"linked": "folder", "folder/link": "file"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := regular.ReadNoLinks(filepath.Join(dir, "folder/file"), 4); string(data) != "text" || err != nil {
		t.Errorf("got %q, %v", data, err)
	}
	for _, path := range []string{"linked/file", "folder/link", "folder", "folder/none"} {
		if data, err := regular.ReadNoLinks(filepath.Join(dir, path), 4); err == nil {
			t.Errorf("%s: read %q", path, data)
		}
	}
}
