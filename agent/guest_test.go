package agent_test

import (
	"os"
	"path/filepath"
	"testing"
)

// guestSpec is a small guest:
//
//	(module
//	  (import "prober_v1" "message" (func $message (param i32 i32)))
//	  (memory (export "memory") 1)
//	  (data (i32.const 0) "TEXT")
//	  (func (export "probe") (result i32) i32.const 0 i32.const LEN call $message i32.const RESULT)
//	  (func (export "validate_config") (result i32) i32.const REFUSE)
//	  (func (export "_initialize") [unreachable]))
type guestSpec struct {
	text       string // the output of probe, of at most 63 bytes
	result     byte   // of probe, below 64
	refuse     byte   // result of validate_config, below 64
	trapsStart bool   // in _initialize
	trapsProbe bool
	spins      bool // in validate_config, forever
}

// module assembles the guest.
func (g guestSpec) module() []byte {
	name := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	section := func(id byte, parts ...[]byte) []byte {
		body := join(parts...)
		return append([]byte{id, byte(len(body))}, body...)
	}
	code := func(body ...byte) []byte { return append([]byte{byte(len(body) + 2), 0}, append(body, 0x0b)...) }
	start, probe := code(), code(0x41, 0, 0x41, byte(len(g.text)), 0x10, 0, 0x41, g.result)
	if g.trapsStart {
		start = code(0x00)
	}
	if g.trapsProbe {
		probe = code(0x00)
	}
	validate := code(0x41, g.refuse)
	if g.spins {
		validate = code(0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0)
	}
	return join([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{3, 0x60, 2, 0x7f, 0x7f, 0, 0x60, 0, 1, 0x7f, 0x60, 0, 0}),
		section(2, []byte{1}, name("prober_v1"), name("message"), []byte{0, 0}),
		section(3, []byte{3, 1, 1, 2}),
		section(5, []byte{1, 0, 1}),
		section(7, []byte{4}, name("memory"), []byte{2, 0}, name("probe"), []byte{0, 1},
			name("validate_config"), []byte{0, 2}, name("_initialize"), []byte{0, 3}),
		section(10, []byte{3}, probe, validate, start),
		section(11, []byte{1, 0, 0x41, 0, 0x0b}, name(g.text)),
	)
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// withManifest returns a module with its manifest embedded.
func withManifest(module []byte, manifest string) []byte {
	body := join([]byte{byte(len("prober.manifest"))}, []byte("prober.manifest"), []byte(manifest))
	size := len(body)
	return join(module, []byte{0, byte(size&0x7f) | 0x80, byte(size >> 7)}, body)
}

// plugin returns the module of a plugin with its manifest embedded.
func (g guestSpec) plugin(name, version string) []byte {
	return withManifest(g.module(), "apiVersion: prober.dev/v1\nname: "+name+"\nversion: "+version+"\n")
}

// put creates or replaces a file atomically.
func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, string(data))
}
