package binary

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/daeace23/prober/internal/wasmfile"
)

// readCounters returns the values of the counters of an instance.
func readCounters(module api.Module, c Counters) (counts []uint64) {
	globals := module.(experimental.InternalModule)
	for i := range c.all() {
		counts = append(counts, globals.Global(c.First+i).Get())
	}
	return counts
}

// everyBlock counts all that can be counted.
var everyBlock = Counting{Blocks: func(int, int) bool { return true }, Fuel: true}

// TestCountingChangesNothing compares random programs that count with ones that do not. The counted fuel of
// all functions is the fuel of the program.
func TestCountingChangesNothing(t *testing.T) {
	bulk := 0
	for seed := range *programs {
		random := rand.New(rand.NewPCG(uint64(seed), 3))
		choices := make([]byte, 50+random.IntN(1500))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		code := (&program{choices: choices}).module()
		m, err := Inspect(code, 100)
		if err != nil {
			t.Fatal(err)
		}
		counting, err := InspectCounting(code, 100, everyBlock)
		if err != nil || !counting.Metered {
			t.Fatalf("%x: %v, %s", code, err, counting.Unmetered)
		}
		plain := runProgram(t, wazero.NewRuntimeConfigInterpreter(), m.Code, &slicer{slice: 1000})
		s := &slicer{slice: 1000, counters: counting.Counters}
		if got := runProgram(t, wazero.NewRuntimeConfigInterpreter(), counting.Code, s); fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Fatalf("%x: counting\n%+v\nwithout\n%+v", code, got, plain)
		}
		var want, sum int64
		for _, used := range plain.fuel {
			want += used
		}
		for _, used := range s.counts[:counting.Counters.Fuel] {
			sum += int64(used)
		}
		if sum != want {
			t.Fatalf("%x: the functions took %d units, the program %d", code, sum, want)
		}
		if s.counts[counting.Counters.Fuel-1] > 0 {
			bulk++
		}
		checkBlocks(t, code, counting.Counters.Blocks)
	}
	if bulk == 0 {
		t.Error("no program copied memory")
	}
}

// checkBlocks checks that blocks are disjoint and inside of the code section.
func checkBlocks(t *testing.T, code []byte, blocks []Block) {
	t.Helper()
	sections, err := wasmfile.Sections(code)
	if err != nil {
		t.Fatal(err)
	}
	end := 0
	for _, b := range blocks {
		if b.Start < end || b.End <= b.Start {
			t.Fatalf("%x: block %v after one that ends at %d", code, b, end)
		}
		end = b.End
	}
	i := slices.IndexFunc(sections, func(s wasmfile.Section) bool { return s.ID == sectionCode })
	if len(blocks) == 0 || end > len(sections[i].Body) {
		t.Fatalf("%d blocks that end at %d in %d bytes", len(blocks), end, len(sections[i].Body))
	}
}

// TestBlocksOfBranches counts the blocks of a function with two parameters, of which the first is 7.
func TestBlocksOfBranches(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string // offset, number of runs
	}{
		{"straight", "\x41\x01\x0b", []string{"0 1"}},
		{"if", "\x20\x00\x04\x7f\x41\x01\x05\x41\x02\x0b\x0b", []string{"0 1", "5 1", "8 0"}},
		{"if without else", "\x20\x00\x45\x04\x40\x01\x00\x0b\x41\x05\x0b", []string{"0 1", "6 0", "9 1"}},
		{"block that is left", "\x02\x40\x0c\x00\x41\x00\x1a\x0b\x41\x05\x0b", []string{"0 1", "9 1"}},
		{"block that may be left", "\x02\x40\x20\x00\x0d\x00\x41\x00\x1a\x0b\x41\x05\x0b", []string{"0 1", "7 0", "11 1"}},
		{"return", "\x41\x05\x0f\x41\x02\x0b", []string{"0 1"}},
		{"loop", "\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x05\x0b", []string{"3 7", "13 1"}},
		{"trap", "\x00\x0b", []string{"0 1"}},
		{"table", "\x02\x40\x02\x40\x20\x00\x0e\x01\x01\x00\x0b\x41\x05\x0f\x0b\x41\x06\x0b", []string{"0 1", "12 1", "16 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := InspectCounting(branching(c.body), 100, everyBlock)
			if err != nil || !m.Metered {
				t.Fatal(err, m)
			}
			s := &slicer{slice: 1000, counters: m.Counters}
			instance := instantiate(t, m.Code, s)
			_, _ = instance.ExportedFunction("f").Call(t.Context(), 7) // the counters tell
			counts := readCounters(instance, m.Counters)[m.Counters.Fuel:]
			var got []string
			for i, b := range m.Counters.Blocks {
				got = append(got, fmt.Sprint(b.Start-bodyAt, " ", counts[i]))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// bodyAt is the offset of the body of the function in the code section of branching.
const bodyAt = 2

// branching returns a module whose function f has one i32 as parameter and result, no locals, and a body.
func branching(body string) []byte {
	sized := func(s string) string { return string(binary.AppendUvarint(nil, uint64(len(s)))) + s }
	return []byte("\x00asm\x01\x00\x00\x00" + "\x01" + sized("\x01\x60\x01\x7f\x01\x7f") + "\x03" + sized("\x01\x00") +
		"\x07" + sized("\x01\x01f\x00\x00") + "\x0a" + sized("\x01"+sized("\x00"+body)))
}

// instantiate returns an instance of a metered module.
func instantiate(t *testing.T, code []byte, s *slicer) api.Module {
	t.Helper()
	runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { runtime.Close(t.Context()) })
	if _, err := runtime.NewHostModuleBuilder(RefuelModule).NewFunctionBuilder().WithGoFunction(api.GoFunc(s.refuel), nil, nil).Export(RefuelName).Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	module, err := runtime.Instantiate(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	s.fuel = module.ExportedGlobal(FuelName).(api.MutableGlobal)
	s.begin()
	return module
}

// TestMeteredFunctionMayGrow meters functions that become several times as large.
func TestMeteredFunctionMayGrow(t *testing.T) {
	for n := range 300 {
		code := branching(strings.Repeat("\x03\x40\x0b", n) + "\x41\x05\x0b")
		for _, counting := range []Counting{{}, everyBlock} {
			if m, err := InspectCounting(code, 100, counting); err != nil || !m.Metered && m.Unmetered == "" {
				t.Fatalf("%d loops: %v, %+v", n, err, m)
			}
		}
	}
}
