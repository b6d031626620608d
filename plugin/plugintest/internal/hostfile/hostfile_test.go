package hostfile_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/hostfile"
)

func decode(t *testing.T, text string) (hostfile.Files, error) {
	t.Helper()
	r := field.NewReader("x.yaml")
	n := r.Parse([]byte(text), 1<<20)
	if n == nil {
		return nil, r.Err()
	}
	return hostfile.Decode(r, n, "files"), r.Err()
}

// clock is a clock whose waits end at once.
type clock struct{ wasm.Clock }

func (clock) Now() time.Time { return time.Unix(1000, 0) }

func (clock) Wait(context.Context, <-chan struct{}, time.Duration) bool { return false }

func TestFiles(t *testing.T) {
	files, err := decode(t, `
/proc/loadavg: "0.1 0.2"
/var/b/db.tar: {size: 1Mi, age: 100s, mode: "0640", uid: 7}
/var/b/last: {link: /var/b/db.tar}
/var/b/out: {link: /etc/shadow}
/run/x: {type: socket}
/mnt: {filesystem: {total: 10Ki, free: 5, readOnly: true}}
/nas: {behaviour: timeout}
/secret: {behaviour: denied}
`)
	if err != nil {
		t.Fatal(err)
	}
	do := func(op, path string) (wasm.FileReply, error) {
		return files.Do(t.Context(), clock{}, wasm.FileRequest{Op: wasm.FileOp(op), Path: path, Most: 5, Allowed: func(path string) error {
			if path == "/etc/shadow" {
				return fs.ErrPermission
			}
			return nil
		}})
	}
	for _, c := range []struct {
		op, path string
		want     wasm.FileReply
	}{
		{"read", "/proc/loadavg", wasm.FileReply{Data: []byte("0.1 0")}},
		{"stat", "/proc/loadavg", wasm.FileReply{Info: abi.FileInfo{Type: "file", Size: 7, Mode: 0o644, Modified: time.Unix(1000, 0)}}},
		{"stat", "/var/b/last", wasm.FileReply{Info: abi.FileInfo{Type: "file", Size: 1 << 20, Mode: 0o640, UID: 7, Modified: time.Unix(900, 0)}}},
		{"list", "/var/b", wasm.FileReply{List: abi.FileList{Entries: []abi.FileEntry{{Name: "db.tar", Type: "file"}, {Name: "last", Type: "symlink"}, {Name: "out", Type: "symlink"}}}}},
		{"list", "/var", wasm.FileReply{List: abi.FileList{Entries: []abi.FileEntry{{Name: "b", Type: "directory"}}}}},
		{"statfs", "/mnt", wasm.FileReply{Filesystem: abi.FilesystemInfo{Total: 10 << 10, Free: 5, ReadOnly: true}}},
		{"statfs", "/", wasm.FileReply{}},
	} {
		got, err := do(c.op, c.path)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s %s: %v (-want +got)\n%s", c.op, c.path, err, diff)
		}
	}
	for _, c := range []struct {
		op, path string
		want     error
	}{
		{"stat", "/none", fs.ErrNotExist},
		{"read", "/var/b/out", fs.ErrPermission},
		{"read", "/secret", fs.ErrPermission},
		{"read", "/run/x", wasm.ErrFileType},
		{"list", "/run/x", wasm.ErrFileType},
		{"list", "/", wasm.ErrFileEntries},
	} {
		if _, err := do(c.op, c.path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s %s: got %v, want %v", c.op, c.path, err, c.want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		`proc/loadavg: ""`:              "the path must be absolute",
		`/a/../b: ""`:                   "without . and .. in it",
		`/a: {mode: "9"}`:               "must be octal permissions",
		`/a: {mode: "1000"}`:            "must be octal permissions",
		`/a: {size: 1x}`:                "1x",
		`/a: {type: door}`:              "door",
		`/a: {owner: root}`:             "owner",
		`/a: {filesystem: {used: 1}}`:   "used",
		`/a: {filesystem: {total: -1}}`: "-1",
	} {
		if _, err := decode(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x.yaml:1: ") {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
