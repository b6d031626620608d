package wasm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// trapping returns a reactor that prints texts, logs logged as an error unless it is "", and traps in a function of a
// function. names are the names of its functions, the innermost first; without them its names are stripped.
func trapping(t *testing.T, stdout, stderr, logged string, names ...string) []byte {
	print := func(fd, at, size int) string {
		return fmt.Sprintf(" i32.const 0 i32.const %d i32.store i32.const 4 i32.const %d i32.store i32.const %d i32.const 0 i32.const 1 i32.const 8 call $write drop", at, size, fd)
	}
	log := ""
	if logged != "" {
		log = fmt.Sprintf(" i32.const 3 call $enabled if i32.const 3 i32.const 3072 i32.const %d call $log end", len(logged))
	}
	quoted := strings.NewReplacer("\n", `\0a`, `"`, `\22`)
	module := assemble(t, `(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (import "prober_v1" "log_enabled" (func $enabled (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "`+quoted.Replace(stdout)+`") (data (i32.const 2048) "`+quoted.Replace(stderr)+`") (data (i32.const 3072) "`+quoted.Replace(logged)+`")
  (func $inner (param i32) unreachable)
  (func $outer `+print(1, 1024, len(stdout))+print(2, 2048, len(stderr))+log+` i32.const 0 call $inner)
  (func (export "probe") (result i32) call $outer i32.const 0))`)
	if len(names) == 0 {
		return module
	}
	list := []byte{byte(len(names))}
	for i, name := range names {
		list = append(append(list, byte(3+i), byte(len(name))), name...)
	}
	module, err := wasmfile.WithCustom(module, "name", append([]byte{1, byte(len(list))}, list...))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func TestTrapHasMessageOfGuest(t *testing.T) {
	h := dialHost(t, nil)
	for _, tc := range []struct{ name, stdout, stderr, logged, want string }{
		{"nothing is said", "", "", "", ""},
		{"logged by AssemblyScript", "", "", "Index out of range at ~lib/array.ts:114:42", ": Index out of range at ~lib/array.ts:114:42"},
		{"logged by Rust, on two lines", "", "", "panicked at src/lib.rs:38:17:\nindex out of bounds: the len is 2", ": panicked at src/lib.rs:38:17: index out of bounds: the len is 2"},
		{"Rust on stderr", "", "connecting\n\nthread 'main' panicked at src/main.rs:2:5:\ncalled `Option::unwrap()` on a `None` value\nnote: run with `RUST_BACKTRACE=1`\n", "", ": thread 'main' panicked at src/main.rs:2:5: called `Option::unwrap()` on a `None` value"},
		{"Rust with the number of a thread", "", "thread '<unnamed>' (1) panicked at src/main.rs:2:5:\nboom", "", ": thread '<unnamed>' (1) panicked at src/main.rs:2:5: boom"},
		{"Rust on one line", "", "thread 'main' panicked at 'boom', src/main.rs:2:5\nnote: run with", "", ": thread 'main' panicked at 'boom', src/main.rs:2:5"},
		{"Go", "", "starting\npanic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:1\n", "", ": panic: boom"},
		{"TinyGo on stdout", "panic: runtime error: index out of range\n", "", "", ": panic: runtime error: index out of range"},
		{"Zig", "", "thread 1 panic: integer overflow\n/x.zig:1:2: 0x1 in main\n", "", ": thread 1 panic: integer overflow"},
		{"Swift", "", "main/x.swift:3: Fatal error: Index out of range\n", "", ": main/x.swift:3: Fatal error: Index out of range"},
		{"an assertion of C", "", "connected\nAssertion failed: n > 0 (x.c: probe: 12)\n", "", ": Assertion failed: n > 0 (x.c: probe: 12)"},
		{"an exception with a stack trace", "", "Unhandled exception. System.Exception: boom\n   at Program.Main()\n", "", ": Unhandled exception. System.Exception: boom"},
		{"a panic before a log line", "", "panic: boom\n", "giving up", ": panic: boom"},
		{"a log line before another line", "", "bye\n", "giving up", ": giving up"},
		{"too long", "", "", strings.Repeat("x", 900), ": " + strings.Repeat("x", 900)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := h.Load(t.Context(), plugin.Found{Module: trapping(t, tc.stdout, tc.stderr, tc.logged), Manifest: plugin.Minimal("traps")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 2 { // the second call says nothing about the first
				_, err = attempt(t, bind(t, p, `{}`, probe.Target{}), probe.Request{}, patience)
				if want := `plugin "traps": wasm error: unreachable` + tc.want; probe.ReasonOf(err) != probe.ReasonTrap || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}

func TestUnknownLevelIsAnError(t *testing.T) {
	h := dialHost(t, nil)
	for _, level := range []int32{-1, 4} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			code := assemble(t, fmt.Sprintf(`(module
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (import "prober_v1" "log_enabled" (func $enabled (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "giving up")
  (func (export "probe") (result i32)
    i32.const %[1]d call $enabled if i32.const %[1]d i32.const 1024 i32.const 9 call $log end unreachable))`, level))
			p, err := h.Load(t.Context(), plugin.Found{Module: code, Manifest: plugin.Minimal("traps")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			_, err = attempt(t, bind(t, p, `{}`, probe.Target{}), probe.Request{}, patience)
			if want := `plugin "traps": wasm error: unreachable: giving up`; probe.ReasonOf(err) != probe.ReasonTrap || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestTrapTracesOneFrameAnEvent(t *testing.T) {
	h := dialHost(t, nil)
	for name, tc := range map[string]struct{ names, want []string }{
		"stripped": {nil, []string{"wasm error: unreachable", "at $3(i32)", "at $4()", "at $5() i32"}},
		"Rust": {
			[]string{"_ZN4core9panicking5panic17h0123456789abcdefE", "_RNvC1a3foo", "probe"},
			[]string{"wasm error: unreachable in core::panicking::panic(i32)", "at core::panicking::panic(i32)", "at a::foo()", "at probe() i32"},
		},
		"C++, demangled by the linker": {
			[]string{"ns::f(int, char)", "std::vector<int>::at()", "probe"},
			[]string{"wasm error: unreachable in ns::f(int, char)(i32)", "at ns::f(int, char)(i32)", "at std::vector<int>::at()()", "at probe() i32"},
		},
		"Go": {
			[]string{"runtime.throw", "main.(*T).run", "probe"},
			[]string{"wasm error: unreachable in runtime.throw(i32)", "at runtime.throw(i32)", "at main.(*T).run()", "at probe() i32"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := h.Load(t.Context(), plugin.Found{Module: trapping(t, "", "", "", tc.names...), Manifest: plugin.Minimal("traps")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var got []string
			_, _ = attempt(t, bind(t, p, `{}`, probe.Target{}), probe.Request{Trace: func(e probe.TraceEvent) {
				if e.Name == "trap" {
					got = append(got, e.Detail)
				}
			}}, patience)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
