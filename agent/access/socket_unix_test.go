//go:build unix

package access_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

// shortDir returns a folder with a path that is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, path string) *access.Socket {
	t.Helper()
	s, err := access.ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSocketIsPrivate(t *testing.T) {
	path := filepath.Join(shortDir(t), "new", "prober.sock")
	s := listen(t, path)
	for path, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("in the folder: %v, %v", left, err)
	}
	if got := s.Addr(); got.Network() != "unix" || got.String() != path {
		t.Errorf("Addr: %s %s", got.Network(), got)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestSocketInUse(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	listen(t, path)
	if _, err := access.ListenSocket(t.Context(), path); !errors.Is(err, access.ErrSocketInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("the second: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first: %v", err)
	} else {
		conn.Close()
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false) // as kill -9 leaves it
	old.Close()
	listen(t, path)
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestSocketKeepsOtherFiles(t *testing.T) {
	dir := shortDir(t)
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir} {
		if _, err := access.ListenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), "there is a file that is not a socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	long := filepath.Join(dir, strings.Repeat("a", 100), "s")
	if _, err := access.ListenSocket(t.Context(), long); err == nil || !strings.Contains(err.Error(), "bytes too long for a unix socket") {
		t.Errorf("a long path: %v", err)
	}
}

// Another agent may have replaced the socket.
func TestSocketCloseKeepsAnother(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	first := listen(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	listen(t, path)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestDefaultSocket(t *testing.T) {
	env := func(string) (string, bool) { return "/run/user/1000", true }
	if got := access.DefaultSocket(env); os.Geteuid() == 0 && got != access.SystemSocket ||
		os.Geteuid() != 0 && got != "/run/user/1000/prober.sock" {
		t.Errorf("got %s", got)
	}
}

// All users can create a socket in the folder.
func TestSocketInLooseFolder(t *testing.T) {
	dir := filepath.Join(shortDir(t), "loose")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "prober.sock")
	s, err := access.ListenSocket(t.Context(), path)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}
