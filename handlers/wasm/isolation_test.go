package wasm_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// tableGuest returns a guest that returns Failure if entry 0 of its table is set. Otherwise it runs the
// instructions set. The guest has 40 types, so that a small number can be read as a type or as an
// instruction. The last type has the parameters of table.set.
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

// hiddenTableSets hide a table.set from a reader that decodes instructions differently than wazero.
var hiddenTableSets = map[string]string{
	"plain":                     setTable,
	"SIMD opcode of two bytes":  "\xfd\x0c" + strings.Repeat("\x00", 16) + "\xfd\x83\x41\x44\x1a\x1a" + setTable,
	"block type of five bytes":  "\x41\x00\xd2\x00\x02\xa7\x80\x80\x80\x80\x26\x00\x0b",
	"block type of a reference": "\x02\x40\x02\x63\x0e" + setTable + strings.Repeat("\x01", 62) + "\x0c\x01\x0b\x1a\x0b",
	"select of a reference":     "\xd0\x70\xd0\x70\x41\x00\x1c\x01\x63\x02\x1a" + setTable,
}

// TestReferenceToTypeIsRefused covers references to types for which wazero validates other instructions
// than it compiles.
func TestReferenceToTypeIsRefused(t *testing.T) {
	const header, memory = moduleHeader, "\x05\x03\x01\x00\x01\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00"
	const types, function = "\x01\x05\x01\x60\x00\x01\x7f", "\x03\x02\x01\x00"
	code := func(body string) string { return section(10, "\x01"+string(sized([]byte(body+"\x41\x00\x0b")))) }
	for place, module := range map[string]string{
		"parameter":  section(1, "\x01\x60\x01\x63\x70\x00"),
		"result":     section(1, "\x01\x60\x00\x01\x64\x00"),
		"type group": section(1, "\x01\x4e\x01\x60\x00\x00"),
		"table":      section(4, "\x01\x63\x70\x00\x01"),
		"global":     types + function + memory[:5] + section(6, "\x01\x63\x70\x01\xd0\x70\x0b") + memory[5:] + code("\x00"),
		"element":    section(9, "\x01\x05\x63\x70\x00"),
		"local":      types + function + memory + code("\x01\x01\x63\x70"),
		"block":      types + function + memory + code("\x00\x02\x63\x70\xd0\x70\x0b\x1a"),
		"select":     types + function + memory + code("\x00\xd0\x70\xd0\x70\x41\x00\x1c\x01\x63\x70\x1a"),
		"ref.null":   types + function + memory + code("\x00\xd0\x63\x70\x1a"),
	} {
		_, err := host.Load(t.Context(), plugin.Found{Module: []byte(header + module), Manifest: plugin.Minimal("reference")})
		if err == nil || strings.Contains(err.Error(), "compile") || !strings.Contains(err.Error(), "is not supported") && !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%s: got %v, want a refusal", place, err)
		}
	}
}

func TestResetLeavesNoTableEntryBehind(t *testing.T) {
	for name, set := range hiddenTableSets {
		t.Run(name, func(t *testing.T) {
			p, err := host.Load(t.Context(), plugin.Found{Module: tableGuest(set), Manifest: plugin.Minimal("hidden")})
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

var modules = flag.Int("modules", 200, "number of random modules for which reset is compared with fresh")

// fiveAttempts returns the outcomes of five attempts of two probes.
func fiveAttempts(t *testing.T, p *wasm.Handler, timeout time.Duration) (outcomes []string) {
	probes := []probe.Handler{bind(t, p, `{}`, probe.Target{}), bind(t, p, `{}`, probe.Target{})}
	for _, i := range []int{0, 0, 1, 0, 1} {
		out, err := attempt(t, probes[i], probe.Request{}, timeout)
		outcomes = append(outcomes, fmt.Sprint(out, err))
	}
	return outcomes
}

// loadAndProbe loads a module and returns its outcomes. reset reports whether its instances are reset.
func loadAndProbe(t *testing.T, h *wasm.Host, code []byte, isolation plugin.Isolation, timeout time.Duration) (outcomes []string, reset bool, err error) {
	manifest := asking("random", plugin.Request{Capability: "kv"})
	manifest.Isolation = isolation
	p, err := h.Load(t.Context(), plugin.Found{Module: code, Manifest: manifest, Grants: grants(t, "kv")})
	if err != nil {
		return nil, false, err
	}
	defer p.Close()
	reset = p.Stats().Idle > 0 // the first instance is kept only if it can be reset
	return fiveAttempts(t, p, timeout), reset, nil
}

// compareIsolations compares the isolations reset and fresh with instances that begin without an image.
// reset reports whether the module can be reset at all.
func compareIsolations(t *testing.T, h *wasm.Host, seed uint64) (diff string, reset bool) {
	code := randomCode(seed, nil, false)
	want, _, err := loadAndProbe(t, h, randomCode(seed, nil, true), plugin.Fresh, patience)
	if err != nil {
		t.Fatalf("%x: %v", code, err)
	}
	for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
		got, again, err := loadAndProbe(t, h, code, isolation, patience)
		if err != nil {
			t.Fatalf("%x: %v", code, err)
		}
		reset = reset || again
		if d := cmp.Diff(want, got); d != "" {
			diff += fmt.Sprintf("%s: %s", isolation, d)
		}
	}
	return diff, reset
}

// randomHost returns a host with a temporary cache.
func randomHost(t testing.TB) *wasm.Host {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestResetEqualsFresh(t *testing.T) {
	const hostFor = 500 // modules per host, because each leaves a file in the cache
	resets := 0
	for first := 0; first < *modules; first += hostFor {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			h := randomHost(t)
			for seed := first; seed < min(first+hostFor, *modules); seed++ {
				diff, reset := compareIsolations(t, h, uint64(seed))
				if diff != "" {
					t.Fatalf("module %d: %s", seed, diff)
				}
				if reset {
					resets++
				}
			}
		})
	}
	if t.Logf("%d of %d modules were reset", resets, *modules); resets < *modules/4 {
		t.Error("too few modules were reset")
	}
}

// FuzzResetAgainstFresh adds instructions to random modules.
func FuzzResetAgainstFresh(f *testing.F) {
	for i, raw := range []string{"", setTable, "\xfc\x09\x01", "\xfc\x0d\x01", "\x41\x01\x40\x00\x1a", "\xfc\x10\x00\x1a"} {
		f.Add(uint64(i), []byte(raw))
	}
	h := randomHost(f)
	f.Fuzz(func(t *testing.T, seed uint64, raw []byte) {
		const timeout = time.Second // reached by guests that loop
		want, _, err := loadAndProbe(t, h, randomCode(seed, raw, true), plugin.Fresh, timeout)
		if err != nil || strings.Contains(fmt.Sprint(want), "timed out") {
			return
		}
		code := randomCode(seed, raw, false)
		got, _, err := loadAndProbe(t, h, code, plugin.Reset, timeout)
		if diff := cmp.Diff(want, got); err != nil || diff != "" && !strings.Contains(fmt.Sprint(got), "timed out") {
			t.Errorf("%x: %v, %s", code, err, diff)
		}
	})
}
