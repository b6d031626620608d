package wasm_test

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// deadlineSlack is how late an attempt may end on a loaded machine. What it is on an
// idle one is reported by BenchmarkDeadline.
const deadlineSlack = 500 * time.Millisecond

// load loads a file of testdata, in the isolation that is given.
func load(t testing.TB, h *wasm.Host, name string, isolation plugin.Isolation) *wasm.Handler {
	t.Helper()
	m := plugin.Minimal(name)
	m.Isolation = isolation
	p, err := h.Load(t.Context(), guestFile(t, name), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// blackHole listens and never answers.
func blackHole(t testing.TB) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return targetOf(l)
}

func targetOf(l net.Listener) probe.Target {
	addr := l.Addr().(*net.TCPAddr)
	return probe.Target{Host: addr.IP.String(), Port: addr.Port}
}

func TestHostileGuestsEndAtTheDeadline(t *testing.T) {
	const timeout = 100 * time.Millisecond
	target := blackHole(t)
	for _, name := range []string{"spin", "sleep", "poll", "flood", "hang"} {
		for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
			t.Run(name+"/"+string(isolation), func(t *testing.T) {
				p := load(t, host, name, isolation)
				for range 2 { // the second time in a new instance
					start := time.Now()
					got, err := attempt(t, p, probe.Request{Target: target}, timeout)
					took := time.Since(start)
					if want := probe.TimedOut(timeout); err != nil || got.Result != want.Result || got.Output != want.Output || got.Reason != want.Reason {
						t.Errorf("got %+v, %v, want %+v", got, err, want)
					}
					if took < timeout || took > timeout+deadlineSlack {
						t.Errorf("ended after %v", took)
					}
				}
			})
		}
	}
}

func TestFaultsAreErrors(t *testing.T) {
	for name, want := range map[string]struct {
		reason probe.Reason
		text   string
	}{
		"trap":      {probe.ReasonTrap, "unreachable"},
		"recurse":   {probe.ReasonTrap, "stack overflow"},
		"oom":       {probe.ReasonMemory, "wants more than 33554432 bytes of memory"},
		"code":      {probe.ReasonProtocol, "returned 42"},
		"badresult": {probe.ReasonProtocol, "result: byte 0 of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, host, name, plugin.Reset)
			for range 2 {
				_, err := attempt(t, p, probe.Request{}, 5*time.Second)
				if err == nil || probe.ReasonOf(err) != want.reason || !strings.Contains(err.Error(), want.text) {
					t.Errorf("got %v (reason %s), want %q with reason %s", err, probe.ReasonOf(err), want.text, want.reason)
				}
			}
		})
	}
}

func TestGoGuestFaults(t *testing.T) {
	for config, want := range map[string]struct {
		reason probe.Reason
		text   string
	}{
		`{"do":"panic"}`:           {probe.ReasonTrap, "panic: out of order"},
		`{"do":"exit"}`:            {probe.ReasonTrap, "exited with code 0"},
		`{"do":"exit","code":700}`: {probe.ReasonTrap, "exited with code 700"},
		`{"do":"allocate"}`:        {probe.ReasonMemory, "out of memory"},
	} {
		t.Run(config, func(t *testing.T) {
			_, err := attempt(t, bind(t, goGuest(t), config, probe.Target{}), probe.Request{}, 2*time.Minute)
			if err == nil || probe.ReasonOf(err) != want.reason || !strings.Contains(err.Error(), want.text) {
				t.Errorf("got %v (reason %s), want %q with reason %s", err, probe.ReasonOf(err), want.text, want.reason)
			}
		})
	}
	got, err := attempt(t, goGuest(t), probe.Request{}, 5*time.Second)
	if err != nil || got.Result != probe.Success {
		t.Errorf("afterwards: got %+v, %v, want a success", got, err)
	}
}

func TestTableIsClamped(t *testing.T) {
	p := load(t, host, "table", plugin.Reset)
	for range 3 {
		got, err := attempt(t, p, probe.Request{}, 5*time.Second)
		if err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v, want a table of 65,536 entries at most", got, err)
		}
	}
}

func TestWrongABI(t *testing.T) {
	_, err := host.Load(t.Context(), guestFile(t, "wrongabi"), plugin.Minimal("wrongabi"))
	if err == nil || probe.ReasonOf(err) != probe.ReasonInstantiate || !strings.Contains(err.Error(), `plugin "wrongabi": unknown import module "prober_v9"`) {
		t.Errorf("got %v", err)
	}
}

func TestInitializeIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := host.Load(ctx, guestFile(t, "initspin"), plugin.Minimal("initspin"))
	if err == nil || time.Since(start) > 100*time.Millisecond+deadlineSlack {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

// TestSpinningGuestHoldsNobodyUp runs native probes beside guests that spin, with the
// garbage collector at work: without termination checks it would stop the process.
func TestSpinningGuestHoldsNobodyUp(t *testing.T) {
	const (
		natives = 1000
		period  = 50 * time.Millisecond
		rounds  = 10
	)
	p := load(t, host, "spin", plugin.Reset)
	ctx, cancel := context.WithCancel(t.Context())
	var spinning sync.WaitGroup
	for range 2 {
		spinning.Go(func() {
			for ctx.Err() == nil {
				_, _ = attempt(t, p, probe.Request{}, period)
			}
		})
	}
	lags := make(chan time.Duration, natives*rounds)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range natives {
		due := start.Add(period + time.Duration(i)*period/natives)
		wg.Go(func() {
			for range rounds {
				<-time.After(time.Until(due))
				lags <- time.Since(due)
				due = due.Add(period)
			}
		})
	}
	for range rounds {
		runtime.GC()
	}
	wg.Wait()
	cancel()
	spinning.Wait()
	close(lags)
	var all []time.Duration
	for lag := range lags {
		all = append(all, lag)
	}
	slices.Sort(all)
	t.Logf("lag: median %v, p99 %v, max %v", all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	// Two spinning guests would hold up everyone for their whole deadline, again and
	// again, if they held up anyone. The race detector's machine is too slow to tell.
	if median := all[len(all)/2]; median > time.Second && !interpreter {
		t.Errorf("half of the probes were later than %v", median)
	}
}
