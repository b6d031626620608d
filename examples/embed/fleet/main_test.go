package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/probe"
)

// Of 50,000 endpoints, the ones that fail are printed, each once, and no others.
func TestFiftyThousandEndpoints(t *testing.T) {
	const endpoints, sick = 50_000, 100
	synctest.Test(t, func(t *testing.T) {
		g, err := group.New[int](group.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{probes: g}
		var down atomic.Bool
		for i := range endpoints {
			err := f.Add(fmt.Sprint("endpoint-", i), probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				if down.Load() && i%(endpoints/sick) == 0 {
					return probe.Outcome{Result: probe.Failure, Output: "refused"}, nil
				}
				return probe.Outcome{Result: probe.Success}, nil
			}), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx, &out)
		}()
		time.Sleep(30 * time.Second)
		down.Store(true)
		time.Sleep(30 * time.Second)
		cancel()
		<-done
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		text := out.String()
		if n := strings.Count(text, ": success "); n != endpoints {
			t.Errorf("%d endpoints were ready", n)
		}
		if n := strings.Count(text, ": failure refused "); n != sick || f.ready != endpoints-sick {
			t.Errorf("%d endpoints went down, %d are ready", n, f.ready)
		}
	})
}

func TestRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	err = run(ctx, strings.NewReader(address+"\n"), endAt{&out, "(1 of 1 ready)", cancel}, 10*time.Millisecond)
	if want := address + ": success  (1 of 1 ready)\n"; err != nil || out.String() != want {
		t.Errorf("got %q, %v; want %q", out.String(), err, want)
	}
	l.Close()
	for input, want := range map[string]string{"a\n": "line 1: address a: missing port in address", address + "\nb:x\n": "line 2: strconv.Atoi"} {
		if err := run(ctx, strings.NewReader(input), &out, time.Second); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", input, err, want)
		}
	}
}

// endAt ends a run when its output has a text.
type endAt struct {
	*bytes.Buffer
	text string
	end  func()
}

func (w endAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.end()
	}
	return w.Buffer.Write(p)
}
