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
	"github.com/daeace23/prober/internal/endless"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// endlessGuests returns guests that compute for ever.
func endlessGuests() []endless.Guest {
	if interpreter {
		return endless.Guests(endless.Shallow)
	}
	return endless.Guests(endless.Deep)
}

// TestEndlessGuestsEndAtDeadline checks that computing guests are ended at their deadlines. Metered ones
// are unwound, and their instances are reused.
func TestEndlessGuestsEndAtDeadline(t *testing.T) {
	const timeout = 50 * time.Millisecond
	for _, how := range []struct {
		deadline wasm.Deadline
		host     *wasm.Host
		idle     int
	}{{wasm.DeadlineFuel, host, 1}, {wasm.DeadlineChecks, checkedHost(t), 0}} {
		for _, guest := range endlessGuests() {
			t.Run(string(how.deadline)+"/"+guest.Name, func(t *testing.T) {
				p, err := how.host.Load(t.Context(), plugin.Found{Module: guest.Module, Manifest: plugin.Minimal("endless")})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if got := p.Deadline(); got != how.deadline {
					t.Errorf("the deadline is enforced by %s", got)
				}
				for range 2 {
					got, err := overrun(t, p, probe.Request{}, timeout)
					wantTimedOut(t, got, err, timeout)
					if got := p.Stats(); got.Idle != how.idle || got.Busy != 0 {
						t.Errorf("got %+v, want %d idle instances", got, how.idle)
					}
				}
			})
		}
	}
}

func TestCancelEndsComputingGuest(t *testing.T) {
	p := load(t, host, "spam", plugin.Reset)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Probe(ctx, probe.Request{Debug: true, Trace: first(cancel)})
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

// stoppedClock is a clock that stands still, and a deterministic source of randomness.
type stoppedClock struct {
	wasm.Clock
	at time.Time
}

func (s *stoppedClock) Now() time.Time { return s.at }

func (s *stoppedClock) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}

// TestFuelIsDeterministic checks that the same run takes the same fuel on every host, in every
// isolation that begins with the same memory.
func TestFuelIsDeterministic(t *testing.T) {
	same := &stoppedClock{Clock: &steppedClock{}, at: time.Now()}
	for name, module := range map[string][]byte{"counter": guestFile(t, "ok"), "go": goModule(t)} {
		want := uint64(0)
		for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh, plugin.Reset} {
			h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter, Clock: same, Rand: same})
			if err != nil {
				t.Fatal(err)
			}
			m := plugin.Minimal(name)
			m.Isolation = isolation
			p, err := h.Load(t.Context(), plugin.Found{Module: module, Manifest: m})
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
				case used != want:
					t.Errorf("%s, %s: it took %d units, then %d", name, isolation, want, used)
				}
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestModuleWithoutMeters checks that the log says why a module is not metered, and that its guest is
// ended by checks.
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
		const timeout = time.Second // reached by guests that loop
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
