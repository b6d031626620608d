package binary

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestTablesAreClamped(t *testing.T) {
	// Three tables: 10 entries and no maximum, 20 and at most 30, 0 and at most 2^32-1.
	r := newReader([]byte{3, 0x70, 0, 10, 0x70, 1, 20, 30, 0x6f, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	out := newReader(clampTables(&r, 120))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	total := uint32(0)
	for range out.Count() {
		out.Byte()
		if out.Byte() != 1 {
			t.Error("a table without a maximum")
		}
		least, most := out.U32(), out.U32()
		if most < least {
			t.Errorf("a table of %d to %d entries", least, most)
		}
		total += most
	}
	if total > 120 || out.Err != nil || len(out.Data) > 0 {
		t.Errorf("tables of %d entries in all, %v; want 120 at most", total, out.Err)
	}
	r = newReader([]byte{1, 0x70, 0, 0xff, 0x7f})
	if clampTables(&r, 120); r.Err == nil {
		t.Error("a table that begins above the limit was accepted")
	}
}

func TestDataSegmentsAreMerged(t *testing.T) {
	segment := func(at, b byte) []byte { return []byte{0, 0x41, at, 0x0b, 1, b} }
	body := []byte{3}
	for _, s := range [][]byte{segment(30, 'c'), segment(10, 'a'), segment(12, 'b')} {
		body = append(body, s...)
	}
	got := readData(mergeData(body))
	if len(got) != 1 || got[0].at != 10 || len(got[0].data) != 21 || got[0].data[0] != 'a' || got[0].data[2] != 'b' || got[0].data[20] != 'c' {
		t.Errorf("got %v, want one segment with the same effect", got)
	}
	if overlap := append(append([]byte{2}, segment(10, 'a')...), segment(10, 'b')...); mergeData(overlap) != nil {
		t.Error("segments that overlap were merged")
	}
	if passive := []byte{1, 1, 1, 'x'}; mergeData(passive) != nil {
		t.Error("a passive segment was merged")
	}
	const many = 100_000
	scattered := binary.AppendUvarint(nil, many)
	for i := range many {
		scattered = append(appendSigned(append(scattered, 0, 0x41), int64(i*(mergeGap+1))), 0x0b, 1, 'x')
	}
	if got := mergeData(scattered); len(got) > len(scattered)+maxFilled {
		t.Errorf("%d bytes of data became %d", len(scattered), len(got))
	}
}

// FuzzInspect inspects modules that may be malformed.
func FuzzInspect(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x04\x04\x01\x70\x00\x01\x05\x03\x01\x00\x01\x06\x06\x01\x7f\x01\x41\x00\x0b\x07\x05\x01\x01m\x02\x00\x0a\x05\x01\x03\x00\x01\x0b\x0b\x07\x01\x00\x41\x00\x0b\x01x"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x04\x01\x02\x00\x0b")) // can be metered
	f.Fuzz(func(t *testing.T, code []byte) {
		m, err := Inspect(code, 100)
		if err != nil {
			return
		}
		if len(m.Globals) > 0 || m.start {
			return // the rewritten module has reserved names
		}
		rewritten := m.Code
		if m.Metered {
			rewritten = m.plain // meters have reserved names, too
		}
		again, err := Inspect(rewritten, 100)
		if err != nil || again.MinMemory != m.MinMemory || again.Volatile != m.Volatile {
			t.Errorf("rewriting changed what the module says: %+v, %v, want %+v", again, err, m)
		}
	})
}

func TestUnknownImportsHaveAdvice(t *testing.T) {
	const header = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00"
	importing := func(module, name, kind string) []byte {
		body := "\x01" + string(rune(len(module))) + module + string(rune(len(name))) + name + kind
		return []byte(header + "\x02" + string(rune(len(body))) + body)
	}
	const function, global = "\x00\x00", "\x03\x7f\x00"
	for _, tc := range []struct{ module, name, kind, want string }{
		{"env", "abort", function, `unknown import module "env" of the function "abort"; this prober has prober_v1, `},
		{"env", "abort", function, "wasi_snapshot_preview1. AssemblyScript needs the SDK of prober"},
		{"env", "emscripten_memcpy_big", function, ". Emscripten needs JavaScript: build with emcc -sSTANDALONE_WASM"},
		{"a", "b", function, ". Emscripten needs"},
		{"env", "log", function, ". Linkers import from env what is declared and not defined"},
		{"gojs", "runtime.wasmExit", function, ": build with GOOS=wasip1"},
		{"./x_bg.js", "__wbindgen_throw", function, ". wasm-bindgen needs JavaScript"},
		{"wasi_unstable", "fd_write", function, ". It is older than WASI preview 1"},
		{"wasi:cli/stdout@0.2.0", "get-stdout", function, ". prober does not have WASI 0.2: build for WASI preview 1"},
		{"extism:host/env", "alloc", function, ". It is an interface of another host"},
		{"other", "f", function, `of the function "f"; this prober has`},
		{"\x1b[31m", "\x1b]0;t\a", function, `unknown import module "\x1b[31m" of the function "\x1b]0;t\a"`},
		{"\x1b[31m", "\x1b]0;t\a", global, `import "\x1b[31m"."\x1b]0;t\a": only functions can be imported, and this is a global`},
		{"env", "memory_base", global, "import env.memory_base: only functions can be imported"},
	} {
		if _, err := Inspect(importing(tc.module, tc.name, tc.kind), 100); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q.%q: got %v, want %q", tc.module, tc.name, err, tc.want)
		}
	}
}
