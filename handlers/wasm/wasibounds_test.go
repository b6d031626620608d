package wasm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// asksWASI returns a guest that calls a WASI function, and returns 100 plus the error number.
func asksWASI(function, params, call string) string {
	return fmt.Sprintf(`(module
  (import "wasi_snapshot_preview1" "%s" (func $f (param %s) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32) %s call $f i32.const 100 i32.add))`, function, params, call)
}

// TestWASIParametersAreBounded checks the bounds of parameters. They exist because a WASI function cannot
// be interrupted.
func TestWASIParametersAreBounded(t *testing.T) {
	const i2, i3, i4, i5 = "i32 i32", "i32 i32 i32", "i32 i32 i32 i32", "i32 i32 i32 i32 i32"
	for _, c := range []struct{ function, params, call, want string }{
		{"fd_write", i4, "i32.const 1 i32.const 64 i32.const 1024 i32.const 0", "100"},
		{"fd_write", i4, "i32.const 1 i32.const 64 i32.const 1025 i32.const 0", "128"},
		{"fd_pwrite", "i32 i32 i32 i64 i32", "i32.const 1 i32.const 64 i32.const -1 i64.const 0 i32.const 0", "128"},
		{"fd_read", i4, "i32.const 0 i32.const 64 i32.const 1024 i32.const 0", "100"},
		{"fd_read", i4, "i32.const 0 i32.const 64 i32.const 1025 i32.const 0", "128"},
		{"fd_pread", "i32 i32 i32 i64 i32", "i32.const 0 i32.const 64 i32.const 1025 i64.const 0 i32.const 0", "128"},
		{"poll_oneoff", i4, "i32.const 0 i32.const 0 i32.const 1024 i32.const 0", "100"},
		{"poll_oneoff", i4, "i32.const 0 i32.const 0 i32.const 1025 i32.const 0", "128"},
		{"poll_oneoff", i4, "i32.const 0 i32.const 0 i32.const 89478486 i32.const 0", "128"}, // times 48, this overflows to 32
		{"path_create_directory", i3, "i32.const 3 i32.const 0 i32.const 4096", "108"},
		{"path_create_directory", i3, "i32.const 3 i32.const 0 i32.const 4097", "137"},
		{"path_filestat_get", i5, "i32.const 3 i32.const 0 i32.const 0 i32.const 4097 i32.const 0", "137"},
		{"path_filestat_set_times", "i32 i32 i32 i32 i64 i64 i32", "i32.const 3 i32.const 0 i32.const 0 i32.const 4097 i64.const 0 i64.const 0 i32.const 0", "137"},
		{"path_link", i5 + " " + i2, "i32.const 3 i32.const 0 i32.const 0 i32.const 4097 i32.const 3 i32.const 0 i32.const 1", "137"},
		{"path_link", i5 + " " + i2, "i32.const 3 i32.const 0 i32.const 0 i32.const 1 i32.const 3 i32.const 0 i32.const 4097", "137"},
		{"path_open", i5 + " i64 i64 i32 i32", "i32.const 3 i32.const 0 i32.const 0 i32.const 4097 i32.const 0 i64.const 0 i64.const 0 i32.const 0 i32.const 0", "137"},
		{"path_readlink", i5 + " i32", "i32.const 3 i32.const 0 i32.const 4097 i32.const 0 i32.const 1 i32.const 0", "137"},
		{"path_remove_directory", i3, "i32.const 3 i32.const 0 i32.const 4097", "137"},
		{"path_rename", i5 + " i32", "i32.const 3 i32.const 0 i32.const 4097 i32.const 3 i32.const 0 i32.const 1", "137"},
		{"path_rename", i5 + " i32", "i32.const 3 i32.const 0 i32.const 1 i32.const 3 i32.const 0 i32.const 4097", "137"},
		{"path_symlink", i5, "i32.const 0 i32.const 4097 i32.const 3 i32.const 0 i32.const 1", "137"},
		{"path_symlink", i5, "i32.const 0 i32.const 1 i32.const 3 i32.const 0 i32.const 4097", "137"},
		{"path_unlink_file", i3, "i32.const 3 i32.const 0 i32.const 4097", "137"},
	} {
		t.Run(c.function+" "+c.call, func(t *testing.T) {
			p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, asksWASI(c.function, c.params, c.call)), Manifest: plugin.Minimal("asks")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			_, err = attempt(t, p, probe.Request{}, 5*time.Second)
			want := fmt.Sprintf("plugin %q: the plugin returned %s; want 0 to 3, or a negative number", "asks", c.want)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
