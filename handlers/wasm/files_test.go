package wasm_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// reader loads the guest that reads files, with requests for all files.
func reader(t *testing.T, h *wasm.Host, limits plugin.Limits, texts ...string) *wasm.Handler {
	t.Helper()
	m := asking("files", plugin.Request{Capability: "files", Optional: true})
	m.Limits = limits
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "files"), Manifest: m, Grants: grants(t, texts...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// operate returns the result and the message of one operation.
func operate(t *testing.T, p *wasm.Handler, op, path string) (probe.Outcome, string) {
	t.Helper()
	config, err := json.Marshal(map[string]string{"op": map[string]string{"stat": "s", "statfs": "f", "list": "l", "read": "r"}[op], "path": path})
	if err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, bind(t, p, string(config), probe.Target{}), probe.Request{}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return got, got.Output
}

func TestFilesOfTheHost(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, "in", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("secret", "s3cret")
	write("in/a", "text of a")
	write("in/.key", "denied")
	for name, to := range map[string]string{"in/out": "../secret", "in/far": folder + "/secret", "in/same": "a", "in/key": ".key", "in/up": "../in/a"} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := reader(t, host, plugin.Limits{}, "file://"+folder+"/in/**", "!file://"+folder+"/in/.Key")
	for _, c := range []struct {
		op, path, want string
		result         probe.Result
	}{
		{"read", "/in/a", `text of a`, probe.Success},
		{"read", "/in/same", `text of a`, probe.Success},
		{"read", "/in/up", `text of a`, probe.Success},
		{"stat", "/in/a", `\{"type":"file","size":9,"mode":416,"mtime":\d+.*\}`, probe.Success},
		{"stat", "/in", `\{"type":"directory",.*\}`, probe.Success},
		{"list", "/in/deep", `\{\}`, probe.Success},
		{"list", "/in", `\{"entries":\[\{"name":".key","type":"file"\},\{"name":"a","type":"file"\},\{"name":"deep","type":"directory"\},\{"name":"far","type":"symlink"\},.*\]\}`, probe.Success},
		{"read", "/secret", `read .*/secret: file:///.*/secret is not granted`, probe.Failure},
		{"read", "/in/out", `.*/in/out leads to .*/secret: file:///.*/secret is not granted`, probe.Failure},
		{"stat", "/in/far", `.*/in/far leads to .*/secret: file:///.*/secret is not granted`, probe.Failure},
		{"read", "/in/key", `.*/in/key leads to .*/in/.key: denied by the grant !file://.*/in/.Key`, probe.Failure},
		{"read", "/in/../secret", `files: ".*": the path must be absolute, without \. and \.\. in it.*`, probe.Failure},
		{"read", "/in/", `files: ".*": the path must be absolute.*`, probe.Failure},
		{"read", "/in/none", `read .*/in/none: no such file or directory`, probe.Failure},
		{"read", "/in/a/b", `read .*/in/a/b: not a directory`, probe.Failure},
		{"read", "/in/deep", `read .*/in/deep: a folder, not a regular file`, probe.Failure},
		{"list", "/in/a", `list .*/in/a: not a folder`, probe.Failure},
	} {
		got, text := operate(t, p, c.op, folder+c.path)
		if match, err := regexp.MatchString("^"+c.want+"$", text); err != nil || !match || got.Result != c.result {
			t.Errorf("%s %s: got %v %q, want %v %q", c.op, c.path, got.Result, text, c.result, c.want)
		}
		if denied := strings.Contains(text, "grant"); denied != (got.Reason == probe.ReasonDenied) {
			t.Errorf("%s %s: got the reason %q", c.op, c.path, got.Reason)
		}
	}
	if p.Stats().Denied != 4 {
		t.Errorf("got %d denials", p.Stats().Denied)
	}
	if _, text := operate(t, reader(t, host, plugin.Limits{}), "read", folder+"/in/a"); text != `the capability "files" is not granted` {
		t.Errorf("got %q", text)
	}
}

func TestFilesAreBounded(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	grant := "file://" + folder + "/**"
	for _, c := range []struct {
		limits         plugin.Limits
		op, path, want string
		hit            plugin.LimitName
	}{
		{plugin.Limits{FileRead: 1}, "read", "/a", "0", ""},
		{plugin.Limits{FileEntries: 2}, "list", "", "list " + folder + ": the folder has too many entries", "fileEntries"},
		{plugin.Limits{FileEntries: 3, FileCalls: 1}, "list", "", `{"entries":[{"name":"a","type":"file"},{"name":"b","type":"file"},{"name":"c","type":"file"}]}`, ""},
	} {
		p := reader(t, host, c.limits, grant)
		if _, text := operate(t, p, c.op, folder+c.path); text != c.want {
			t.Errorf("%+v: got %q, want %q", c.limits, text, c.want)
		}
		if c.hit != "" {
			wantHits(t, p, map[plugin.LimitName]uint64{c.hit: 1})
		}
	}
}

// TestFilesHang checks that a call to a file without an answer ends at the deadline, with the path in the details.
func TestFilesHang(t *testing.T) {
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		Files: func(ctx context.Context, _ wasm.FileRequest) (wasm.FileReply, error) {
			<-ctx.Done()
			return wasm.FileReply{}, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := reader(t, h, plugin.Limits{}, "file:///mnt/nas/**")
	hang(t, bind(t, p, `{"op":"f","path":"/mnt/nas/a"}`, probe.Target{}), probe.Target{}, `^statfs /mnt/nas/a: waiting for [0-9.]+m?s$`)
}
