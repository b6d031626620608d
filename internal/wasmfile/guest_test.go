package wasmfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/wasmfile"
)

// guests has modules and their errors.
var guests = []struct {
	name, module string
	command      bool
	want         []string
}{
	{"nothing", header, false, []string{`the module exports no "memory"`, `the module exports no function "probe": export it, or build a program, which exports "_start"`}},
	{"a reactor", header + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b", false, nil},
	{"a reactor as a command", header + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b", true,
		[]string{`the module exports no function "_start"`}},
	{"a command", header + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" + "\x0a\x04\x01\x02\x00\x0b", false, nil},
	// (f32, v128) -> (i64, f64) as prober_v1.log and as probe; wasi_snapshot_preview1.x; a table, a memory and a global of env.
	{"all kinds of imports", header + "\x01\x0b\x02\x60\x02\x7d\x7b\x02\x7e\x7c\x60\x00\x00" +
		"\x02\x57\x05\x03env\x05table\x01\x70\x01\x01\x02" + "\x03env\x06memory\x02\x00\x01" + "\x03env\x06global\x03\x7f\x00" +
		"\x09prober_v1\x03log\x00\x00" + "\x16wasi_snapshot_preview1\x01x\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00", false, []string{
		"import prober_v1.log has another signature than version 1 of the contract: got (f32, unknown) -> (i64, f64), want (i32, i32, i32) -> ()",
		`the export "probe" has another signature than version 1 of the contract: got (f32, unknown) -> (i64, f64), want () -> (i32)`,
	}},
}

func TestGuestFollowsContract(t *testing.T) {
	for _, c := range guests {
		g, err := wasmfile.Guest([]byte(c.module))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, err := range g.Check(g.Command(c.command)) {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}
