package wasm_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// binaryGuest returns a guest whose function probe has a body in the binary format, with two locals
// of type i32. Function 0 is log_enabled of the host, 1 is probe, 2 is callee, which takes and
// returns an i32. A table of 8 entries has the functions 0 and 2 in turns. Type 1 is theirs.
func binaryGuest(body, callee string) []byte {
	return []byte(moduleHeader +
		section(1, "\x02\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f") +
		section(2, "\x01\x09prober_v1\x0blog_enabled\x00\x01") +
		section(3, "\x02\x00\x01") + section(4, "\x01\x70\x00\x08") + section(5, "\x01\x00\x80\x04") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x01") +
		section(9, "\x01\x00\x41\x00\x0b\x08\x00\x02\x00\x02\x00\x02\x00\x02") +
		section(10, "\x02"+string(sized([]byte("\x01\x02\x7f"+body+"\x41\x00\x0b")))+string(sized([]byte("\x00"+callee+"\x0b")))))
}

// endless returns the guests that compute for ever, each in its own way.
func endless() map[string][]byte {
	const (
		same   = "\x20\x00"                             // callee returns its parameter
		add    = "\x20\x00\x41\x03\x6c\x21\x00"         // local 0 *= 3
		memory = "\x80\x80\x80\x10"                     // 32 MiB, the size of memory
		step   = "\x41\xc5\x20\x6a\x41\xff\xff\xff\x0f" // + 4165, and 32 Mi - 1
	)
	loop := func(body string) string { return "\x03\x40" + body + "\x0c\x00\x0b" }
	const ways = 200
	var dispatch strings.Builder
	dispatch.WriteString("\x03\x40" + strings.Repeat("\x02\x40", ways) + "\x20\x00\x41\x00\x6c\x0e\xc7\x01")
	for i := range ways {
		dispatch.WriteString(string(uleb(uint64(i))))
	}
	dispatch.WriteString(strings.Repeat("\x0b"+strings.Repeat(add, 5), ways) + "\x0c\x00\x0b")
	const fibonacci = "\x20\x00\x41\x02\x48\x04\x40\x41\x01\x0f\x0b\x20\x00\x41\x01\x6b\x10\x02\x20\x00\x41\x02\x6b\x10\x02\x6a"
	const recursion = "\x20\x00\x45\x04\x40\x41\x01\x0f\x0b\x20\x00\x41\x01\x6b\x10\x02\x41\x07\x6c"
	deep := "\x80\xf7\x05" // 97,152 calls
	if interpreter {
		deep = "\xdc\x0b" // 1,500: wazero's interpreter allows 2,000
	}
	return map[string][]byte{
		"empty loop":     binaryGuest(loop(""), same),
		"long loop":      binaryGuest(loop(strings.Repeat(add, 3000)), same),
		"divisions":      binaryGuest(loop(strings.Repeat("\x20\x00\x41\x01\x72\x41\x7f\x20\x00\x41\x01\x72\x6e\x21\x00\x1a", 50)), same),
		"dispatcher":     binaryGuest(dispatch.String(), same),
		"recursion":      binaryGuest("\x41\x3c\x10\x02\x1a", fibonacci),
		"deep recursion": binaryGuest(loop("\x41"+deep+"\x10\x02\x1a"), recursion),
		"fill":           binaryGuest(loop("\x41\x00\x41\x01\x41"+memory+"\xfc\x0b\x00"), same),
		"copy":           binaryGuest(loop("\x41\x00\x41\x01\x41\xff\xff\xff\x0f\xfc\x0a\x00\x00"), same),
		"copy back":      binaryGuest(loop("\x41\x01\x41\x00\x41\xff\xff\xff\x0f\xfc\x0a\x00\x00"), same),
		"misses":         binaryGuest(loop(strings.Repeat("\x20\x00"+step+"\x71\x22\x00\x28\x00\x00\x20\x00\x6a\x21\x00", 10)), same),
		"calls":          binaryGuest(loop("\x41\x01\x10\x02\x1a"), same),
		"table":          binaryGuest(loop("\x41\x01\x41\x01\x11\x01\x00\x1a"), same),
		"host":           binaryGuest(loop("\x41\x01\x10\x00\x1a"), same),
		"host by table":  binaryGuest(loop("\x41\x01\x41\x00\x11\x01\x00\x1a"), same),
		"grow":           binaryGuest(loop("\x41\x7f\x40\x00\x1a"), same),
	}
}

// A guest that computes is unwound at its deadline, whatever it computes, and its instance is
// used again.
func TestEndlessGuestsEndAtDeadline(t *testing.T) {
	const timeout = 50 * time.Millisecond
	for name, module := range endless() {
		t.Run(name, func(t *testing.T) {
			p, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("endless")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got := p.Deadline(); got != wasm.DeadlineFuel {
				t.Errorf("the deadline is enforced by %s", got)
			}
			for range 2 {
				got, err := overrun(t, p, probe.Request{}, timeout)
				wantTimedOut(t, got, err, timeout)
				if got := p.Stats(); got.Idle != 1 || got.Busy != 0 {
					t.Errorf("got %+v, want the instance to be used again", got)
				}
			}
		})
	}
}

func TestCancelEndsComputingGuest(t *testing.T) {
	p := load(t, host, "spam", plugin.Reset)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Probe(ctx, probe.Request{Trace: first(cancel)})
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v", err)
	}
	if got := p.Stats(); got.Idle != 1 || got.Busy != 0 {
		t.Errorf("got %+v, want the instance to be used again", got)
	}
}

func TestEndlessStartFunctionIsEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := host.Load(ctx, plugin.Found{Module: assemble(t, `(module
		(memory (export "memory") 1)
		(func $first loop br 0 end)
		(func (export "probe") (result i32) i32.const 0)
		(start $first))`), Manifest: plugin.Minimal("start")})
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("got %v", err)
	}
}

// The same run takes the same fuel, in every isolation.
func TestFuelIsDeterministic(t *testing.T) {
	for name, module := range map[string][]byte{"counter": guestFile(t, "ok"), "go": goModule(t)} {
		want := uint64(0)
		for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh, plugin.Reset} {
			m := plugin.Minimal(name)
			m.Isolation = isolation
			p, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: m})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				before := p.Stats().Fuel
				if _, err := attempt(t, p, probe.Request{}, patience); err != nil {
					t.Fatal(err)
				}
				switch used := p.Stats().Fuel - before; {
				case used == 0:
					t.Errorf("%s: no fuel was used", name)
				case want == 0:
					want = used
				case used != want && name != "go": // its runtime reads the clock
					t.Errorf("%s, %s: it took %d units, then %d", name, isolation, want, used)
				}
			}
			p.Close()
		}
	}
}

// A module that cannot be metered says why, and is ended by checks.
func TestModuleWithoutMeters(t *testing.T) {
	var log bytes.Buffer
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	large := string(make([]byte, 70_000))
	module := []byte(moduleHeader +
		section(1, "\x01\x60\x00\x01\x7f") + section(3, "\x01\x00") + section(5, "\x01\x00\x02") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00") + section(12, "\x01") +
		section(10, "\x01"+string(sized([]byte("\x00\x41\x00\x41\x00\x41\x05\xfc\x08\x00\x00\x03\x40\x0c\x00\x0b\x00\x0b")))) +
		section(11, "\x01\x01"+string(sized([]byte(large)))))
	for range 2 { // the second time from the cache
		log.Reset()
		p, err := h.Load(t.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("large")})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Deadline(); got != wasm.DeadlineChecks {
			t.Errorf("the deadline is enforced by %s", got)
		}
		if want := `handler=large reason="memory.init of a segment of 70000 bytes; at most 65536 can be metered"`; !strings.Contains(log.String(), want) {
			t.Errorf("the log is %s, want %s", &log, want)
		}
		got, err := overrun(t, p, probe.Request{}, 50*time.Millisecond)
		wantTimedOut(t, got, err, 50*time.Millisecond)
		p.Close()
	}
}

// FuzzFuelAgainstChecks compares random modules with and without meters.
func FuzzFuelAgainstChecks(f *testing.F) {
	for i, raw := range []string{"", setTable, "\x41\x01\x40\x00\x1a", "\x02\x40\x41\x01\x0d\x00\x0b", "\x41\x00\x41\x01\x41\x80\x80\x08\xfc\x0b\x00"} {
		f.Add(uint64(i), []byte(raw), true)
	}
	fuel, checks := randomHost(f), checkedHost(f)
	f.Fuzz(func(t *testing.T, seed uint64, raw []byte, volatile bool) {
		const timeout = time.Second // of a guest that loops
		code := randomCode(seed, raw, volatile)
		want, _, err := loadAndProbe(t, checks, code, plugin.Fresh, timeout)
		if err != nil || strings.Contains(fmt.Sprint(want), "timed out") {
			return
		}
		got, _, err := loadAndProbe(t, fuel, code, plugin.Fresh, timeout)
		if diff := cmp.Diff(want, got); err != nil || diff != "" && !strings.Contains(fmt.Sprint(got), "timed out") {
			t.Errorf("%x: %v, %s", code, err, diff)
		}
	})
}

// BenchmarkEndless reports how late attempts of guests that compute for ever end.
func BenchmarkEndless(b *testing.B) {
	for name, module := range endless() {
		b.Run("guest="+strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			p, err := host.Load(b.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("endless")})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			benchLateness(b, p, probe.Request{})
		})
	}
}
