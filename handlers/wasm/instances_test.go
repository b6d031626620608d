package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func TestLimitsOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := loadAs(t, h, "ok", limited(plugin.Limits{Calls: 2, Idle: time.Minute}))
		for range 5 {
			if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		wantHits(t, p, map[plugin.LimitName]uint64{"calls": 2})
		if got := p.Stats().Idle; got != 1 {
			t.Errorf("%d instances", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.Stats().Idle; got != 0 {
			t.Errorf("%d instances after a minute", got)
		}
		wantHits(t, p, map[plugin.LimitName]uint64{"calls": 2, "idle": 1})
	})
}

// TestInstancesAfterBurst checks that surplus instances are closed earlier than the last one.
func TestInstancesAfterBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			time.AfterFunc(time.Second, func() { there.Close() })
			return here, nil
		}
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter, DialContext: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := loadAs(t, h, "hang", limited(plugin.Limits{}))
		var burst sync.WaitGroup
		for range 3 {
			burst.Go(func() {
				req := probe.Request{Target: probe.Target{Host: "10.0.0.7", Port: 80}}
				if got, err := attempt(t, p, req, 5*time.Second); err != nil || got.Result != probe.Success {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		burst.Wait()
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 3}, {20 * time.Second, 1}, {5 * time.Minute, 0}} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := p.Stats().Idle; got != step.want {
				t.Errorf("%v later: %d instances, want %d", step.after, got, step.want)
			}
		}
		wantHits(t, p, map[plugin.LimitName]uint64{"idle": 1})
	})
}

// TestStartWithoutMemoryIsSkipped checks that missing memory at an instance's start skips the attempt,
// and is not an error of the plugin.
func TestStartWithoutMemoryIsSkipped(t *testing.T) {
	began := make(chan struct{}, 1)
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, TotalMemory: 2 << 20,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	// The guest changes its table, so that there is no image and each instance runs _initialize.
	p, err := h.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (table 1 2 funcref)
  (func (export "_initialize")
    i32.const 16
    memory.grow
    i32.const 0
    i32.lt_s
    if
    unreachable
    end)
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    drop
    ref.null
    i32.const 0
    table.grow))`), Manifest: plugin.Minimal("large")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	req := probe.Request{Target: probe.Target{Host: "10.0.0.7", Port: 1}}
	first.Go(func() { _, _ = p.Probe(ctx, req) })
	<-began
	_, err = attempt(t, p, req, 5*time.Second)
	if !errors.Is(err, probe.ErrNoSlot) || p.Stats().Limits["totalMemory"] != 1 {
		t.Errorf("got %v, limits %v, want no instance, and totalMemory hit once", err, p.Stats().Limits)
	}
	cancel()
	first.Wait()
}

func TestBlackHolesLeaveInstancesToPromptProbes(t *testing.T) {
	began := make(chan struct{}, 10)
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if addr == "10.0.0.7:1" {
				return nil, errors.New("refused")
			}
			began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "dialurl"), Manifest: plugin.Minimal("dialurl"), Limits: plugin.Limits{Instances: 4}})
	if err != nil {
		t.Fatal(err)
	}
	well, hole := probe.Request{Target: probe.Target{Host: "10.0.0.7", Port: 1}}, probe.Request{Target: probe.Target{Host: "10.0.0.9", Port: 1}}
	prompt := bind(t, p, `{"url":""}`, well.Target)
	if _, err := attempt(t, prompt, well, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	var slowProbes []probe.Handler
	for range 4 {
		b := bind(t, p, `{"url":""}`, hole.Target)
		due := newDue(t)
		dialled := make(chan struct{})
		go func() {
			defer close(dialled)
			<-began
			due.pass()
		}()
		if _, err := b.Probe(due, hole); err != nil {
			t.Fatal(err)
		}
		<-dialled
		slowProbes = append(slowProbes, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var slow sync.WaitGroup
	refused := make(chan struct{}, 10)
	for _, b := range slowProbes {
		slow.Go(func() {
			if _, err := b.Probe(ctx, hole); errors.Is(err, probe.ErrNoSlot) {
				refused <- struct{}{}
			}
		})
	}
	for range 4 {
		select {
		case <-began:
		case <-refused:
		}
	}
	if got, err := attempt(t, prompt, well, 5*time.Second); err != nil || got.Result != probe.Failure {
		t.Errorf("got %+v, %v, want an instance for the prompt probe", got, err)
	}
	cancel()
	slow.Wait()
}

// TestOldestIdleInstanceIsEvicted checks that the longest idle instance of any plugin is closed if the
// memory of all plugins is used up.
func TestOldestIdleInstanceIsEvicted(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, TotalMemory: 6 * 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	code := assemble(t, `(module (memory (export "memory") 1) (func (export "probe") (result i32) i32.const 0))`)
	var plugins []*wasm.Handler
	for i := range 5 { // each has an image, and one instance that has been idle since the load
		p, err := h.Load(t.Context(), plugin.Found{Module: code, Manifest: plugin.Minimal(fmt.Sprint("p", i))})
		if err != nil {
			t.Logf("plugin %d: %v", i, err)
			break
		}
		plugins = append(plugins, p)
	}
	last := len(plugins) - 1
	if last < 2 {
		t.Fatalf("only %d plugins were loaded", len(plugins))
	}
	for i, p := range plugins {
		if idle := p.Stats().Idle; idle == 0 && i > 0 && plugins[i-1].Stats().Idle > 0 {
			t.Errorf("the instance of plugin %d is gone, and the older one of %d is there", i, i-1)
		}
	}
	if plugins[0].Stats().Idle != 0 || plugins[last].Stats().Idle != 1 {
		t.Errorf("idle: %d of the first plugin, %d of the last; want 0 and 1", plugins[0].Stats().Idle, plugins[last].Stats().Idle)
	}
}

// TestCallsShareNothing checks calls that reuse the call objects of other plugins.
func TestCallsShareNothing(t *testing.T) {
	bad, ok := load(t, host, "badresult", plugin.Reset), load(t, host, "ok", plugin.Reset)
	silent := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv"}), grants(t, "kv")...)
	for range 3 {
		if out, err := attempt(t, bad, probe.Request{}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonProtocol {
			t.Errorf("got %v, %v, want a violation", out, err)
		}
		if out, err := attempt(t, ok, probe.Request{}, 5*time.Second); err != nil || out.Output != "well" {
			t.Errorf("got %v, %v, want well", out, err)
		}
		b := bind(t, silent, `{"add":"x","code":0}`, probe.Target{})
		if out, err := attempt(t, b, probe.Request{}, 5*time.Second); err != nil || out.Output != "" || out.Metrics != nil {
			t.Errorf("got %v, %v, want nothing", out, err)
		}
	}
}
