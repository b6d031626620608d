package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// trapModule has a memory of one page, and a probe that traps.
var trapModule = []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x05\x03\x01\x00\x01" +
	"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00\x0a\x05\x01\x03\x00\x00\x0b")

// TestTrappingGuestsLeakNothing compares memory, goroutines, descriptors and mappings before and after
// many guests have trapped.
func TestTrappingGuestsLeakNothing(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	cycle := func(loads, calls int) {
		for range loads {
			p, err := h.Load(t.Context(), plugin.Found{Module: trapModule, Manifest: plugin.Minimal("trap")})
			if err != nil {
				t.Fatal(err)
			}
			for range calls {
				if _, err := p.Probe(t.Context(), probe.Request{}); err == nil {
					t.Fatal("want a trap")
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle(2, 500)
	before, others := resourcesOf(t), goleak.IgnoreCurrent()
	cycle(10, 1000)
	if err := goleak.Find(others); err != nil { // do not compare numbers, because some goroutines are just ending
		t.Error(err)
	}
	after := resourcesOf(t)
	if used := h.Memory(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
	t.Logf("after 10,000 cycles: %+v, before: %+v", after, before)
	if after.descriptors > before.descriptors {
		t.Errorf("descriptors: %+v, before: %+v", after, before)
	}
	// One leaked instance in a hundred would be 6 MiB of the guests' memory, and a hundred mappings.
	if after.mappings > before.mappings+20 || after.heap > before.heap+1<<20 {
		t.Errorf("mappings and heap grew: %+v, before: %+v", after, before)
	}
}

// resources counts the resources that the process uses.
type resources struct {
	heap                  uint64 // live bytes
	mappings, descriptors int
}

func resourcesOf(t *testing.T) resources {
	t.Helper()
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return resources{stats.HeapAlloc, guestMappings(), descriptors(t)}
}

// guestMappings counts the mappings of guests' memory and code. It excludes Go's heap, whose mappings
// change.
func guestMappings() (n int) {
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range bytes.Lines(maps) {
		if bytes.Contains(line, []byte("prober-guest")) || bytes.Contains(line, []byte(" r-xp ")) {
			n++
		}
	}
	return n
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// setContext is a context whose deadline differs from its end.
type setContext struct {
	context.Context
	deadline time.Time
}

func (c setContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c setContext) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestAttemptThatWaitsForSlotIsSkipped checks that a busy host does not fail a healthy container.
func TestAttemptThatWaitsForSlotIsSkipped(t *testing.T) {
	const patience = 10 * time.Millisecond // after which the host adds a slot
	p := load(t, host, "spin", plugin.Fresh)
	attempt := func(ctx context.Context, timeout time.Duration) (probe.Outcome, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*patience)
		defer cancel()
		return p.Probe(setContext{ctx, time.Now().Add(timeout)}, probe.Request{Spec: probe.Spec{Timeout: timeout}})
	}
	if got, err := attempt(t.Context(), time.Hour); err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("with a free slot: got %+v, %v, want a timeout", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var spinning sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		spinning.Go(func() { _, _ = p.Probe(ctx, probe.Request{}) })
	}
	for p.Stats().Busy < runtime.GOMAXPROCS(0) { // each has a slot and an instance
		runtime.Gosched()
	}
	if got, err := attempt(t.Context(), patience*3/2); !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("without a free slot: got %+v, %v, want %v", got, err, probe.ErrNoSlot)
	}
	cancel()
	spinning.Wait()
}
