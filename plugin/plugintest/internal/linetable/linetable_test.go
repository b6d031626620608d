package linetable_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin/plugintest/internal/linetable"
)

// module returns a module with custom sections, given as names and contents.
func module(sections ...string) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for i := 0; i < len(sections); i += 2 {
		body := string(binary.AppendUvarint(nil, uint64(len(sections[i])))) + sections[i] + sections[i+1]
		out = append(binary.AppendUvarint(append(out, 0), uint64(len(body))), body...)
	}
	return out
}

// sized returns text after its length in four bytes.
func sized(text string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// operands are the numbers of operands of the opcodes 1 to 12.
const operands = "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01"

// unit4 returns a unit of version 4 with the files main.c, and util.h in the folder /inc.
func unit4(program string) string {
	return sized("\x04\x00" + sized("\x01\x01\x01\xfb\x0e\x0d"+operands+"/inc\x00\x00"+"main.c\x00\x00\x00\x00"+"util.h\x00\x01\x00\x00"+"\x00") + program)
}

// unit5 returns a unit of version 5 with the files /src/main.c, and sub/util.h in /src. The folders have their names
// in .debug_line_str.
func unit5(program string) string {
	return sized("\x05\x00\x04\x00" + sized("\x01\x01\x01\xfb\x0e\x0d"+operands+
		"\x01\x01\x1f\x02"+"\x00\x00\x00\x00"+"\x05\x00\x00\x00"+
		"\x03\x01\x08\x02\x0b\x05\x1e\x02"+"main.c\x00\x00"+strings.Repeat("5", 16)+"util.h\x00\x01"+strings.Repeat("5", 16)) + program)
}

const lineStrings = "/src\x00sub\x00"

// Parts of line programs.
const (
	at16     = "\x00\x05\x02\x10\x00\x00\x00" // address 16
	at0      = "\x00\x05\x02\x00\x00\x00\x00"
	atEnd    = "\x00\x05\x02\xff\xff\xff\xff"
	copied   = "\x01"
	pc4      = "\x02\x04" // 4 bytes further
	line3    = "\x03\x03" // 3 lines further
	back1    = "\x03\x7f" // one line back
	file2    = "\x04\x02"
	noStmt   = "\x06"
	finished = "\x00\x01\x01"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, units string
		want        linetable.Table
	}{
		{"none", "", linetable.Table{}},
		{
			"version 4", unit4(at16 + copied + pc4 + line3 + copied + pc4 + file2 + back1 + copied + pc4 + finished),
			linetable.Table{Files: []string{"main.c", "/inc/util.h"}, Rows: []linetable.Row{{16, 20, 0, 1}, {20, 24, 0, 4}, {24, 28, 1, 3}}},
		},
		{
			"version 5", unit5(at16 + copied + pc4 + "\x04\x00" + copied + pc4 + finished),
			linetable.Table{Files: []string{"/src/sub/util.h", "/src/main.c"}, Rows: []linetable.Row{{16, 20, 0, 1}, {20, 24, 1, 1}}},
		},
		{
			"special opcodes, and an unknown one", unit4(at16 + "\x13" + "\x00\x03\x80ab" + "\x84" + finished), // 1 line; 8 bytes and 1 line
			linetable.Table{Files: []string{"main.c"}, Rows: []linetable.Row{{16, 24, 0, 2}}},
		},
		{
			"code that is no statement", unit4(at16 + copied + pc4 + noStmt + line3 + copied + pc4 + noStmt + copied + pc4 + finished),
			linetable.Table{Files: []string{"main.c"}, Rows: []linetable.Row{{16, 20, 0, 1}, {24, 28, 0, 4}}},
		},
		{"functions that the linker removed", unit4(at0 + back1 + copied + pc4 + line3 + copied + pc4 + finished + atEnd + copied + pc4 + finished), linetable.Table{Files: []string{"main.c"}}},
		{"a sequence without an end", unit4(at16 + copied + pc4 + line3 + copied), linetable.Table{Files: []string{"main.c"}}},
		{
			"two units", unit4(at16+pc4+pc4+copied+pc4+finished) + unit4(at16+copied+pc4+finished),
			linetable.Table{Files: []string{"main.c"}, Rows: []linetable.Row{{16, 20, 0, 1}, {24, 28, 0, 1}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := linetable.Read(module(".debug_line", c.units, ".debug_line_str", lineStrings))
			if err != nil {
				t.Fatal(err)
			}
			got.Rows, got.Files = append([]linetable.Row(nil), got.Rows...), append([]string(nil), got.Files...)
			if diff := cmp.Diff(c.want, *got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	valid := unit4(at16 + copied + pc4 + finished)
	for name, units := range map[string]string{
		"64-bit":             "\xff\xff\xff\xff" + valid,
		"version":            sized("\x06\x00"),
		"truncated":          valid[:len(valid)-1],
		"unknown file":       unit4(at16 + "\x04\x09" + copied),
		"no lines in a step": sized("\x04\x00" + sized("\x01\x01\x01\xfb\x00\x0d"+operands+"\x00\x00")),
		"address of 3 bytes": unit4("\x00\x04\x02abc" + copied),
		"endless list":       sized("\x05\x00\x04\x00" + sized("\x01\x01\x01\xfb\x0e\x0d"+operands+"\x00\xff\xff\xff\xff\x0f")),
		"many files":         sized("\x05\x00\x04\x00" + sized("\x01\x01\x01\xfb\x0e\x0d"+operands+"\x01\x01\x0b\xa1\x9c\x01"+strings.Repeat("a", 20_001))),
		"long path":          unit4("")[:len(unit4(""))-1] + strings.Repeat("x", 2000),
		"many rows":          unit4(at16 + strings.Repeat("\x21", 2<<20+2)),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := linetable.Read(module(".debug_line", units)); err == nil || !strings.HasPrefix(err.Error(), ".debug_line at byte ") {
				t.Errorf("got %d rows, %v", len(got.Rows), err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(unit4(at16+copied+pc4+line3+copied+pc4+file2+back1+copied+pc4+finished), lineStrings)
	f.Add(unit5(at16+copied+pc4+"\x04\x00"+copied+pc4+finished), lineStrings)
	f.Fuzz(func(t *testing.T, units, strings string) {
		table, err := linetable.Read(module(".debug_line", units, ".debug_line_str", strings))
		if err != nil {
			return
		}
		before := uint32(0)
		for _, r := range table.Rows {
			if r.Start < before || r.End <= r.Start || r.Line < 1 || int(r.File) >= len(table.Files) {
				t.Errorf("got %+v after a row at %d, and %d files", r, before, len(table.Files))
			}
			before = r.Start
		}
	})
}
