package files

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpecialFilesAreNotOpened checks that a FIFO without a writer, a socket and a device do not block.
func TestSpecialFilesAreNotOpened(t *testing.T) {
	base := tempDir(t)
	must(t, unix.Mkfifo(base+"/fifo", 0o600))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(socket)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: base + "/socket"}))
	for name, open := range openers {
		for path, want := range map[string]string{base + "/fifo": "fifo", base + "/socket": "socket", "/dev/null": "device", "/dev": "directory"} {
			allowed := func(string) error { return nil }
			if got, err := doBy(open, &Request{Op: Stat, Path: path, Allowed: allowed}); err != nil || got.Info.Type != want {
				t.Errorf("%s: %s: got %+v, %v", name, path, got.Info, err)
			}
			_, err := doBy(open, &Request{Op: Read, Path: path, Most: 10, Allowed: allowed})
			if want != "directory" && !errors.Is(err, ErrType) || want == "directory" && !errors.Is(err, ErrFolder) {
				t.Errorf("%s: %s: got %v", name, path, err)
			}
		}
	}
}

func TestProcAndFileSystems(t *testing.T) {
	allowed := func(string) error { return nil }
	for name, open := range openers {
		got, err := doBy(open, &Request{Op: Read, Path: "/proc/loadavg", Most: 1000, Allowed: allowed})
		if err != nil || len(bytes.Fields(got.Data)) != 5 {
			t.Errorf("%s: got %q, %v", name, got.Data, err)
		}
		if got, err = doBy(open, &Request{Op: List, Path: "/proc/self/task", Most: 10_000, Allowed: allowed}); err != nil || len(got.List.Entries) == 0 {
			t.Errorf("%s: got %+v, %v", name, got.List, err)
		}
	}
	got, err := do(&Request{Op: Statfs, Path: "/", Allowed: allowed})
	if f := got.Filesystem; err != nil || f.Total <= 0 || f.Available > f.Free || f.Free > f.Total || f.InodesFree > f.Inodes {
		t.Errorf("got %+v, %v", f, err)
	}
	if got, err = do(&Request{Op: Statfs, Path: "/proc", Allowed: allowed}); err != nil || got.Filesystem.Total != 0 {
		t.Errorf("got %+v, %v", got.Filesystem, err)
	}
	// Links of /proc to files of processes do not lead anywhere.
	for _, path := range []string{"/proc/self/root/etc", "/proc/self/cwd"} {
		if _, err := do(&Request{Op: Stat, Path: path, Allowed: allowed}); !errors.Is(err, unix.ELOOP) || !strings.HasPrefix(err.Error(), "stat "+path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
