package wasm_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// tableGuest is a guest that fails where entry 0 of its table is set, and else runs set. It
// has 40 types, so that a small number may be read as a type or as an instruction. The last
// takes what table.set takes.
func tableGuest(set string) []byte {
	const none = "\x60\x00\x00"
	body := "\x00\x41\x00\x25\x00\xd1\x04\x7f" + set + "\x41\x00\x05\x41\x02\x0b\x0b"
	return []byte(moduleHeader +
		"\x01" + string(sized([]byte("\x28\x60\x00\x01\x7f"+strings.Repeat(none, 38)+"\x60\x02\x7f\x70\x00"))) +
		section(3, "\x01\x00") + section(4, "\x01\x70\x00\x01") + section(5, "\x01\x00\x01") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00") +
		section(10, "\x01"+string(sized([]byte(body)))))
}

// setTable sets entry 0 of the table.
const setTable = "\x41\x00\xd2\x00\x26\x00"

// Each of these hides a table.set from a reader that finds other instructions than wazero
// does in the same bytes.
var hiddenTableSets = map[string]string{
	"plain":                     setTable,
	"SIMD opcode of two bytes":  "\xfd\x0c" + strings.Repeat("\x00", 16) + "\xfd\x83\x41\x44\x1a\x1a" + setTable,
	"block type of five bytes":  "\x41\x00\xd2\x00\x02\xa7\x80\x80\x80\x80\x26\x00\x0b",
	"block type of a reference": "\x02\x40\x02\x63\x0e" + setTable + strings.Repeat("\x01", 62) + "\x0c\x01\x0b\x1a\x0b",
	"select of a reference":     "\xd0\x70\xd0\x70\x41\x00\x1c\x01\x63\x02\x1a" + setTable,
}

func TestResetLeavesNoTableEntryBehind(t *testing.T) {
	for name, set := range hiddenTableSets {
		t.Run(name, func(t *testing.T) {
			p, err := host.Load(t.Context(), tableGuest(set), plugin.Minimal("hidden"))
			if err != nil {
				t.Logf("refused: %v", err)
				return
			}
			defer p.Close()
			for i := range 3 {
				if got, err := attempt(t, p, probe.Request{}, patience); err != nil || got.Result != probe.Success {
					t.Errorf("attempt %d: got %+v, %v", i, got, err)
				}
			}
		})
	}
}
