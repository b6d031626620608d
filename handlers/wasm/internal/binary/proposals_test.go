package binary

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// raw is a section.
func raw(id byte, body ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

func file(sections ...[]byte) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = append(out, s...)
	}
	return out
}

// body is a module with one function of these instructions.
func body(code ...byte) []byte {
	code = append(append([]byte{0}, code...), 0x0b)
	return file(raw(sectionType, 1, 0x60, 0, 0), raw(sectionFunction, 1, 0), raw(sectionMemory, 1, 0, 1),
		raw(sectionCode, append(binary.AppendUvarint([]byte{1}, uint64(len(code))), code...)...))
}

func constant(code ...byte) []byte {
	return file(raw(sectionGlobal, append(append([]byte{1, 0x7f, 0}, code...), 0x0b)...))
}

// The modules are those that wat2wasm --enable-all and newer tools write.
func TestInspectNamesProposal(t *testing.T) {
	for name, tc := range map[string]struct {
		module []byte
		want   *proposal
	}{
		"throw":                     {body(0x08, 0), exceptionHandling},
		"try":                       {body(0x06, 0x40, 0x19, 0x0b), exceptionHandling},
		"try_table":                 {body(0x1f, 0x40, 0, 0x0b), exceptionHandling},
		"a tag":                     {file(raw(sectionType, 1, 0x60, 0, 0), raw(sectionTag, 1, 0, 0)), exceptionHandling},
		"exnref":                    {file(raw(sectionType, 1, 0x60, 1, 0x69, 0)), exceptionHandling},
		"return_call":               {body(0x12, 0), tailCalls},
		"return_call_indirect":      {body(0x41, 0, 0x13, 0, 0), tailCalls},
		"call_ref":                  {body(0xd2, 0, 0x14, 0), functionReferences},
		"return_call_ref":           {body(0xd2, 0, 0x15, 0), functionReferences},
		"br_on_null":                {body(0xd0, 0x70, 0xd5, 0), functionReferences},
		"ref null":                  {file(raw(sectionType, 1, 0x60, 1, 0x63, 0, 0)), functionReferences},
		"a local of a ref":          {file(raw(sectionType, 1, 0x60, 0, 0), raw(sectionFunction, 1, 0), raw(sectionCode, 1, 5, 1, 1, 0x64, 0, 0x0b)), functionReferences},
		"a table with a value":      {file(raw(sectionTable, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b)), functionReferences},
		"a table of ref":            {file(raw(sectionTable, 1, 0x64, 0, 0, 1)), functionReferences},
		"a table of anyref":         {file(raw(sectionTable, 1, 0x6e, 0, 1)), garbageCollection},
		"a struct":                  {file(raw(sectionType, 1, 0x5f, 0)), garbageCollection},
		"an array":                  {file(raw(sectionType, 1, 0x5e, 0x7f, 0)), garbageCollection},
		"a recursive group":         {file(raw(sectionType, 1, 0x4e, 1, 0x60, 0, 0)), garbageCollection},
		"a subtype":                 {file(raw(sectionType, 1, 0x50, 0, 0x60, 0, 0)), garbageCollection},
		"struct.new":                {body(0xfb, 0, 0), garbageCollection},
		"ref.null any":              {body(0xd0, 0x6e, 0x1a), garbageCollection},
		"ref.eq":                    {body(0xd3), garbageCollection},
		"i31 in a constant":         {constant(0x41, 1, 0xfb, 0x1c), garbageCollection},
		"i32.atomic.load":           {body(0x41, 0, 0xfe, 0x10, 2, 0, 0x1a), threads},
		"atomic.fence":              {body(0xfe, 3, 0), threads},
		"shared memory":             {file(raw(sectionMemory, 1, 3, 1, 2)), threads},
		"i8x16.relaxed_swizzle":     {body(0xfd, 0x80, 2), relaxedSIMD},
		"i32x4.relaxed_dot":         {body(0xfd, 0x93, 2), relaxedSIMD},
		"f16x8.splat":               {body(0xfd, 0xa0, 2), halfPrecision},
		"memory of 64 bits":         {file(raw(sectionMemory, 1, 4, 1)), memory64},
		"with a maximum":            {file(raw(sectionMemory, 1, 5, 1, 2)), memory64},
		"table of 64 bits":          {file(raw(sectionTable, 1, 0x70, 4, 1)), memory64},
		"shared memory of 64 bits":  {file(raw(sectionMemory, 1, 7, 1, 2)), threads},
		"two memories":              {file(raw(sectionMemory, 2, 0, 1, 0, 1)), multiMemory},
		"data of the second":        {file(raw(sectionMemory, 1, 0, 1), raw(sectionData, 1, 2, 1, 0x41, 0, 0x0b, 0)), multiMemory},
		"i32.add in a constant":     {constant(0x41, 1, 0x41, 2, 0x6a), extendedConst},
		"i64.mul in a constant":     {constant(0x42, 1, 0x42, 2, 0x7e), extendedConst},
		"in the offset of data":     {file(raw(sectionMemory, 1, 0, 1), raw(sectionData, 1, 0, 0x41, 1, 0x41, 2, 0x6b, 0x0b, 0)), extendedConst},
		"in the offset of elements": {file(raw(sectionTable, 1, 0x70, 0, 1), raw(sectionElement, 1, 0, 0x41, 1, 0x41, 1, 0x6b, 0x0b, 0)), extendedConst},
		"pages of a byte":           {file(raw(sectionMemory, 1, 8, 1, 0)), customPageSizes},
		"i64.add128":                {body(0xfc, 19), wideArithmetic},
		"i64.mul_wide_u":            {body(0xfc, 22), wideArithmetic},
		"suspend":                   {body(0xe2, 0), stackSwitching},
		"cont":                      {file(raw(sectionType, 1, 0x60, 1, 0x68, 0)), stackSwitching},
		"an unknown instruction":    {body(0xff), nil},
		"another":                   {body(0xfc, 30), nil},
		"an unknown type":           {file(raw(sectionType, 1, 0x42)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Inspect(tc.module, 100)
			switch {
			case err == nil || !strings.Contains(err.Error(), " is not supported"):
				t.Errorf("got %v", err)
			case tc.want == nil && strings.Contains(err.Error(), "proposal"), tc.want != nil && !strings.HasSuffix(err.Error(), "belongs to the proposal "+tc.want.name+"; "+tc.want.off):
				t.Errorf("got %v, want the proposal %+v", err, tc.want)
			}
		})
	}
}

// A module of a proposal that wazero learns to run, and that Inspect refuses, must be found.
func TestProposalsAreThoseThatWazeroRefuses(t *testing.T) {
	runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(context.Background())
	for op := range 256 {
		by := ofOpcode(byte(op))
		if _, err := Inspect(body(byte(op)), 100); by != nil && err == nil {
			t.Errorf("instruction %#x of %s is accepted", op, by.name)
		}
		if by == nil {
			continue
		}
		if compiled, err := runtime.CompileModule(t.Context(), body(byte(op), 0, 0, 0, 0)); err == nil {
			compiled.Close(t.Context())
			t.Errorf("wazero runs instruction %#x of %s", op, by.name)
		}
	}
}

func TestImportsNameWhatIsImported(t *testing.T) {
	imported := func(kind byte, rest ...byte) []byte {
		return file(raw(sectionImport, append(append([]byte{1, 3, 'e', 'n', 'v', 1, 'x', kind}, rest...), 0)...))
	}
	for name, tc := range map[string]struct {
		module []byte
		want   string
	}{
		"table":   {imported(kindTable, 0x70, 0, 1), "this is a table: link without --import-table"},
		"memory":  {imported(kindMemory, 0, 1), "this is a memory: link without --import-memory"},
		"shared":  {imported(kindMemory, 3, 1, 2), "this is a memory: link without --import-memory, shared memory and -pthread"},
		"global":  {imported(kindGlobal, 0x7f, 0), "this is a global: link a program"},
		"tag":     {imported(kindTag, 0, 0), "this is a tag: build with clang -fno-exceptions"},
		"unknown": {imported(9), "malformed module"},
	} {
		if _, err := Inspect(tc.module, 100); err == nil || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}
