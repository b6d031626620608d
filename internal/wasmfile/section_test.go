package wasmfile_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/wasmfile"
)

const header = "\x00asm\x01\x00\x00\x00"

func TestSections(t *testing.T) {
	module := []byte(header + "\x01\x02ab" + "\x00\x04\x02xyc" + "\x03\x00")
	got, err := wasmfile.Sections(module)
	want := []wasmfile.Section{
		{ID: 1, Start: 8, Body: []byte("ab")},
		{ID: 0, Name: "xy", Start: 12, Body: []byte("c")},
		{ID: 3, Start: 18, Body: []byte{}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestSectionsErrors(t *testing.T) {
	for module, want := range map[string]string{
		"":                        "not a WebAssembly module of version 1",
		"\x00asm\x02\x00\x00\x00": "not a WebAssembly module of version 1",
		header + "\x01":           "section 1 at byte 8: truncated or malformed length",
		header + "\x01\x03ab":     "section 1 at byte 8: truncated or malformed length",
		header + "\x00" + "\xff\xff\xff\xff\xff\xff": "section 0 at byte 8: truncated or malformed length",
		header + "\x00\x02\x05x":                     "custom section at byte 8: name: truncated or malformed length",
		header + strings.Repeat("\x01\x00", 10_001):  "more than 10000 sections",
	} {
		if _, err := wasmfile.Sections([]byte(module)); err == nil || err.Error() != want {
			t.Errorf("%.20q: got %v, want %s", module, err, want)
		}
	}
}

func TestSectionsNamesOtherFormats(t *testing.T) {
	for file, want := range map[string]string{
		"\x00asm\x0d\x00\x01\x00":              "component (WASI 0.2 or later)",
		"\x00asm\x0a\x00\x01\x00\x07\x01":      "component (WASI 0.2 or later)", // of an older tool
		"(module (memory 1))":                  "text format: assemble it with wat2wasm",
		"\n ;; a plugin\n(module)":             "text format: assemble it with wat2wasm",
		"(; a plugin ;) (module (memory 1))":   "text format: assemble it with wat2wasm",
		"\x00asm\x0d\x00\x00\x00":              "not a WebAssembly module of version 1",
		"\x00asm\x0d\x00\x01":                  "not a WebAssembly module of version 1",
		"#!/bin/sh\necho '(module)'; exit 0\n": "not a WebAssembly module of version 1",
	} {
		if _, err := wasmfile.Sections([]byte(file)); err == nil || !strings.HasPrefix(err.Error(), "not a WebAssembly module of version 1") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %s", file, err, want)
		}
	}
}

func TestWithCustomReplacesSections(t *testing.T) {
	module := []byte(header + "\x00\x04\x02xyc" + "\x01\x01a" + "\x00\x03\x02xz")
	got, err := wasmfile.WithCustom(module, "xy", []byte("new"))
	if want := []byte(header + "\x01\x01a" + "\x00\x03\x02xz" + "\x00\x06\x02xynew"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestImports(t *testing.T) {
	module := []byte(header + "\x01\x04\x01\x60\x00\x00" + "\x02\x13\x03" + "\x01a\x01x\x00\x00" + "\x01b\x01y\x00\x00" + "\x01a\x01x\x00\x00")
	got, err := wasmfile.Imports(module)
	if diff := cmp.Diff(map[string][]string{"a": {"x"}, "b": {"y"}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if _, err := wasmfile.Imports([]byte(header + "\x02\x02\x01\x05")); err == nil || err.Error() != "section 2 at byte 8: malformed module" {
		t.Errorf("got %v", err)
	}
}
