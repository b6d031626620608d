package binary

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

var programs = flag.Int("programs", 50, "number of random programs that are compared with and without meters")

// slicer gives a guest fuel in slices.
type slicer struct {
	slice   int64
	fuel    api.MutableGlobal
	granted int64
	refuels int

	counters Counters
	counts   []uint64 // of the counters, after a run
}

func (s *slicer) begin() {
	s.granted = s.slice
	s.fuel.Set(uint64(s.slice))
}

func (s *slicer) refuel(context.Context, []uint64) {
	left := int64(s.fuel.Get())
	s.granted += s.slice - left
	s.refuels++
	s.fuel.Set(uint64(s.slice))
}

func (s *slicer) used() int64 { return s.granted - int64(s.fuel.Get()) }

// trace is the observable behaviour of a program.
type trace struct {
	calls   []string // calls of the host and results of the functions
	memory  uint64   // hash of the memory
	globals []uint64
	fuel    []int64
}

// runProgram calls the functions of a module. If s is not nil, it supplies the fuel.
func runProgram(t *testing.T, config wazero.RuntimeConfig, code []byte, s *slicer) (seen trace) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(40))
	defer runtime.Close(ctx)
	message := func(_ context.Context, stack []uint64) {
		seen.calls = append(seen.calls, fmt.Sprint("message ", uint32(stack[0]), uint32(stack[1])))
	}
	two := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	_, err := runtime.NewHostModuleBuilder("prober_v1").NewFunctionBuilder().WithGoFunction(api.GoFunc(message), two, nil).Export("message").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		if _, err := runtime.NewHostModuleBuilder(RefuelModule).NewFunctionBuilder().WithGoFunction(api.GoFunc(s.refuel), nil, nil).Export(RefuelName).Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	module, err := runtime.Instantiate(ctx, code)
	if err != nil {
		t.Fatalf("%x: %v", code, err)
	}
	if s != nil {
		s.fuel = module.ExportedGlobal(FuelName).(api.MutableGlobal)
	}
	for i := range programFunctions {
		module.ExportedGlobal("g").(api.MutableGlobal).Set(programSteps)
		if s != nil {
			s.begin()
		}
		result, err := module.ExportedFunction(string(rune('a'+i))).Call(ctx, 7, uint64(i))
		text := fmt.Sprint(result)
		if err != nil {
			text, _, _ = strings.Cut(err.Error(), "\n")
		}
		seen.calls = append(seen.calls, text)
		if s != nil {
			seen.fuel = append(seen.fuel, s.used())
		}
	}
	for i := range 4 {
		seen.globals = append(seen.globals, module.ExportedGlobal(string(rune('g'+i))).Get())
	}
	if s != nil {
		s.counts = readCounters(module, s.counters)
	}
	memory := module.Memory()
	all, _ := memory.Read(0, memory.Size())
	hash := fnv.New64a()
	hash.Write(all)
	seen.memory = hash.Sum64() + uint64(memory.Size())
	return seen
}

// compareMetered runs a program unchanged, with checks, and twice with meters, and compares the
// traces. It reports whether the program was refuelled.
func compareMetered(t *testing.T, config wazero.RuntimeConfig, code []byte) bool {
	t.Helper()
	m, err := Inspect(code, 100)
	if err != nil || !m.Metered {
		t.Fatalf("%x: it is not metered: %v, %s", code, err, m.Unmetered)
	}
	want := runProgram(t, config, m.plain, nil)
	same := func(how string, got trace) {
		t.Helper()
		if fmt.Sprint(got.calls, got.memory, got.globals) != fmt.Sprint(want.calls, want.memory, want.globals) {
			t.Fatalf("%x: %s\n%+v\nplain\n%+v", code, how, got, want)
		}
	}
	same("with checks", runProgram(t, config, m.Plain("").Code, nil))
	refuels := 0
	var fuel []int64
	for _, slice := range []int64{1, 1000} {
		s := &slicer{slice: slice}
		got := runProgram(t, config, m.Code, s)
		same("metered", got)
		if fuel != nil && fmt.Sprint(fuel) != fmt.Sprint(got.fuel) {
			t.Fatalf("%x: it took %d units, then %d", code, fuel, got.fuel)
		}
		fuel, refuels = got.fuel, s.refuels
	}
	return refuels > 0
}

// TestMeteredEqualsPlain compares random programs with their metered versions.
func TestMeteredEqualsPlain(t *testing.T) {
	refuelled := 0
	for seed := range *programs {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		choices := make([]byte, 50+random.IntN(1500))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		if compareMetered(t, wazero.NewRuntimeConfig(), (&program{choices: choices}).module()) {
			refuelled++
		}
	}
	if t.Logf("%d of %d were refuelled", refuelled, *programs); refuelled < *programs/10 {
		t.Errorf("%d of %d were refuelled", refuelled, *programs)
	}
}

// FuzzMeteredAgainstPlain compares any program with its metered version: results, traps, calls of the
// host, memory and globals.
func FuzzMeteredAgainstPlain(f *testing.F) {
	for i := range byte(16) {
		f.Add(bytes.Repeat([]byte{i, 3 * i, 7 * i, 41}, 40))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) < 4000 {
			compareMetered(t, wazero.NewRuntimeConfigInterpreter(), (&program{choices: choices}).module())
		}
	})
}
