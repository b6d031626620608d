package engine_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

type contextKey struct{}

// derived has the ways in which a handler can derive a context from its attempt's context.
var derived = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"its own context": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
	"WithCancel":      context.WithCancel,
	"WithCancelCause": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		return ctx, func() { cancel(nil) }
	},
	"WithTimeout of an hour": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Hour)
	},
	"WithValue": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithValue(ctx, contextKey{}, 1), func() {}
	},
	"WithCancel of WithValue": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithCancel(context.WithValue(ctx, contextKey{}, 1))
	},
}

// contextRig returns a rig with handler h and a timeout of 500 ms.
func contextRig(t *testing.T, h probe.HandlerFunc) *rig {
	r := newRig(t, probe.Readiness)
	r.cfg.Handler = h
	return r
}

func TestContextDeadline(t *testing.T) {
	for name, derive := range derived {
		bubble(t, name+" ends at the deadline", func(t *testing.T) {
			type seen struct {
				end                time.Duration
				before, err, cause error
				left               time.Duration
				hasDeadline        bool
			}
			var got seen
			r := contextRig(t, func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
				start := time.Now()
				ctx, cancel := derive(ctx)
				defer cancel()
				var deadline time.Time
				deadline, got.hasDeadline = ctx.Deadline()
				got.left = deadline.Sub(start)
				got.before = ctx.Err()
				<-ctx.Done()
				got.end, got.err, got.cause = time.Since(start), ctx.Err(), context.Cause(ctx)
				return probe.TimedOut(req.Spec.Timeout), nil
			})
			r.run().wait(600 * ms)
			want := seen{end: 500 * ms, err: context.DeadlineExceeded, cause: context.DeadlineExceeded, left: 500 * ms, hasDeadline: true}
			if got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			r.wantCached(results.Failure)
		})
		bubble(t, name+" ends when the worker is stopped", func(t *testing.T) {
			var err, cause error
			r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				ctx, cancel := derive(ctx)
				defer cancel()
				<-ctx.Done()
				err, cause = ctx.Err(), context.Cause(ctx)
				return probe.Outcome{}, err
			})
			r.run().wait(100 * ms)
			r.w.Stop()
			r.w.Wait()
			if err != context.Canceled || cause != context.Canceled {
				t.Errorf("Err %v, Cause %v; want %v", err, cause, context.Canceled)
			}
			if since := time.Since(r.start); since != 100*ms {
				t.Errorf("ended after %v", since)
			}
		})
		bubble(t, name+" has ended for a goroutine that outlives the attempt", func(t *testing.T) {
			var left []context.Context
			r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				ctx, cancel := derive(ctx)
				t.Cleanup(cancel)
				if err := ctx.Err(); err != nil {
					t.Errorf("context of attempt %d: %v", len(left)+1, err)
				}
				time.Sleep(time.Nanosecond) // derived contexts end in their own goroutines
				for i, earlier := range left {
					if err := earlier.Err(); err != context.Canceled {
						t.Errorf("context of attempt %d in attempt %d: Err %v", i+1, len(left)+1, err)
					}
				}
				left = append(left, ctx)
				return probe.Outcome{Result: probe.Success}, nil
			})
			r.run().wait(3100 * ms)
			for _, ctx := range left {
				<-ctx.Done()
			}
			if len(left) != 4 {
				t.Errorf("%d attempts", len(left))
			}
		})
	}
	bubble(t, "a shorter timeout of the handler is its own", func(t *testing.T) {
		var err, outer error
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			short, cancel := context.WithTimeout(ctx, 100*ms)
			defer cancel()
			<-short.Done()
			err, outer = short.Err(), ctx.Err()
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().wait(100 * ms)
		if err != context.DeadlineExceeded || outer != nil {
			t.Errorf("Err %v of the handler's, %v of the attempt's context", err, outer)
		}
		r.wantCached(results.Success)
	})
	bubble(t, "Err without Done is DeadlineExceeded after the deadline", func(t *testing.T) {
		var before, at error
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			time.Sleep(500*ms - 1)
			before = ctx.Err()
			time.Sleep(time.Nanosecond)
			at = ctx.Err()
			return probe.Outcome{}, at
		})
		r.run().wait(900 * ms)
		if before != nil || at != context.DeadlineExceeded {
			t.Errorf("Err %v before the deadline, %v at it", before, at)
		}
		r.wantCached(results.Failure)
	})
	bubble(t, "Done after the deadline is closed", func(t *testing.T) {
		var err error
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			time.Sleep(700 * ms)
			<-ctx.Done()
			err = ctx.Err()
			return probe.Outcome{}, err
		})
		r.run().wait(900 * ms)
		if err != context.DeadlineExceeded {
			t.Errorf("Err %v", err)
		}
		r.wantCached(results.Failure)
	})
	bubble(t, "without a timeout there is no deadline", func(t *testing.T) {
		ok, ended := true, false
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			_, ok = ctx.Deadline()
			select {
			case <-ctx.Done():
				ended = true
			case <-time.After(time.Hour):
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.cfg.Spec.Timeout = 0
		r.run().wait(time.Hour)
		if ok || ended {
			t.Errorf("deadline: %v, ended: %v", ok, ended)
		}
	})
	bubble(t, "WithoutCancel continues after the attempt", func(t *testing.T) {
		var free context.Context
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			free = context.WithoutCancel(ctx)
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run().wait(900 * ms)
		if err := free.Err(); err != nil {
			t.Errorf("Err %v", err)
		}
	})
	bubble(t, "each attempt of a tick has its own", func(t *testing.T) {
		var ends []time.Duration
		var kept []context.Context
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			deadline, _ := ctx.Deadline()
			if err := ctx.Err(); err != nil {
				t.Errorf("attempt %d begins with %v", len(ends)+1, err)
			}
			kept = append(kept, ctx)
			ends = append(ends, time.Until(deadline))
			time.Sleep(300 * ms)
			return probe.Outcome{}, errors.New("no verdict")
		})
		r.run().wait(900 * ms)
		if len(ends) != probe.MaxAttempts {
			t.Fatalf("%d attempts", len(ends))
		}
		for i, left := range ends {
			if left != 500*ms || kept[i].Err() != context.Canceled {
				t.Errorf("attempt %d had %v; Err %v", i+1, left, kept[i].Err())
			}
		}
	})
}

func TestContextAfterFunc(t *testing.T) {
	for name, tc := range map[string]struct {
		stopEarly bool // the handler stops the AfterFunc
		end       func(*rig)
		want      time.Duration // when the function is called; 0: never
	}{
		"is called at the deadline":              {want: 500 * ms},
		"is called when the worker is stopped":   {want: 100 * ms, end: func(r *rig) { r.wait(100 * ms); r.w.Stop() }},
		"is not called if it was stopped":        {stopEarly: true},
		"is not called after Stop, once stopped": {stopEarly: true, end: func(r *rig) { r.wait(100 * ms); r.w.Stop() }},
	} {
		bubble(t, name, func(t *testing.T) {
			called := make(chan time.Duration, 2)
			r := contextRig(t, func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
				start := time.Now()
				stop := context.AfterFunc(ctx, func() { called <- time.Since(start) })
				if tc.stopEarly && !stop() {
					t.Error("stop reports that the function was called")
				}
				<-ctx.Done()
				time.Sleep(time.Nanosecond)
				if stop() {
					t.Error("stop reports that the function waits after the end")
				}
				return probe.TimedOut(req.Spec.Timeout), nil
			})
			r.run()
			if tc.end != nil {
				tc.end(r)
			}
			r.wait(600 * ms)
			r.w.Stop()
			close(called)
			var got []time.Duration
			for at := range called {
				got = append(got, at)
			}
			if tc.want == 0 && len(got) > 0 || tc.want != 0 && (len(got) != 1 || got[0] != tc.want) {
				t.Errorf("called at %v, want %v", got, tc.want)
			}
		})
	}
	bubble(t, "is called after the attempt has returned", func(t *testing.T) {
		var ended context.Context
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			if ended == nil {
				ended = ctx
				context.AfterFunc(ctx, func() { ended = nil })
			}
			return probe.Outcome{Result: probe.Success}, nil
		})
		r.run()
		if ended != nil {
			t.Error("not called")
		}
	})
}

// A goroutine of a handler that starts to use the context after the attempt has returned does not affect
// later attempts.
func TestContextUsedLate(t *testing.T) {
	for name, use := range map[string]func(context.Context){
		"Done":      func(ctx context.Context) { <-ctx.Done() },
		"Err":       func(ctx context.Context) { _ = ctx.Err() },
		"AfterFunc": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
		"WithCancel": func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			<-ctx.Done()
		},
	} {
		bubble(t, name, func(t *testing.T) {
			first, late := true, make(chan struct{})
			r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				if first {
					first = false
					go func() {
						<-late
						use(ctx)
					}()
				}
				return probe.Outcome{Result: probe.Success}, nil // without using ctx
			})
			r.run()
			close(late)
			r.wait(2 * time.Second)
			r.w.Stop()
			for i, tick := range r.ticks {
				if tick.Err != nil || tick.Outcome.Result != probe.Success {
					t.Errorf("tick %d: %v, %v", i, tick.Outcome, tick.Err)
				}
			}
			if len(r.ticks) != 3 {
				t.Errorf("%d ticks", len(r.ticks))
			}
		})
	}
}

// TestContextConcurrent uses one context in many goroutines while the worker is changed and stopped. It is
// for the race detector.
func TestContextConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := contextRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			var users sync.WaitGroup
			for i := range 8 {
				users.Go(func() {
					for j := range 20 {
						switch (i + j) % 5 {
						case 0:
							child, cancel := context.WithCancel(ctx)
							_ = child.Err()
							cancel()
						case 1:
							context.AfterFunc(ctx, func() {})()
						case 2:
							_, _ = ctx.Deadline()
						case 3:
							_ = ctx.Err()
						default:
							if ctx.Done() == nil {
								t.Error("no channel")
							}
						}
						time.Sleep(ms)
					}
					<-ctx.Done()
				})
			}
			users.Wait()
			return probe.Outcome{}, ctx.Err()
		})
		r.run()
		for i := range 20 {
			r.wait(70 * ms)
			r.w.Update(engine.Change{Setup: r.cfg.Setup, KeepRun: i%2 == 0})
			r.w.Trigger()
		}
		r.w.Stop()
		r.w.Wait()
	})
}

// TestContextClients runs the clients of handlers in real time against peers that never answer. Each client
// must return at the deadline of the attempt, and when the worker is stopped.
func TestContextClients(t *testing.T) {
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }))
	t.Cleanup(hang.Close)
	clients := map[string]probe.HandlerFunc{
		"http.Client": func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, hang.URL, nil)
			if err != nil {
				return probe.Outcome{}, err
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return probe.Outcome{}, err
		},
		"net.Resolver": func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			var deaf net.Resolver
			deaf.PreferGo = true
			deaf.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			_, err := deaf.LookupHost(ctx, "name.invalid.")
			if ctx.Err() != nil {
				return probe.Outcome{}, ctx.Err()
			}
			return probe.Outcome{}, err
		},
		"net.Dialer": func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			d := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}}
			conn, err := d.DialContext(ctx, "tcp", "name.invalid.:80")
			if err == nil {
				conn.Close()
			}
			if ctx.Err() != nil {
				return probe.Outcome{}, ctx.Err()
			}
			return probe.Outcome{}, err
		},
	}
	if runtime.GOOS != "windows" {
		clients["exec.CommandContext"] = func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			err := exec.CommandContext(ctx, "sleep", "600").Run()
			if ctx.Err() != nil {
				return probe.Outcome{}, ctx.Err()
			}
			return probe.Outcome{}, err
		}
	}
	for name, h := range clients {
		t.Run(name+" ends at the deadline", func(t *testing.T) {
			r, ticked := realRig(t, h)
			r.cfg.Spec.Timeout = 50 * ms
			w := engine.New(&r.shared, r.cfg)
			w.Start()
			tick := <-ticked
			if tick.Result != results.Failure || tick.Attempts != 1 || tick.Outcome.Reason != probe.ReasonDeadline {
				t.Errorf("tick %+v", tick)
			}
			w.Stop()
			r.shared.Wait()
		})
		t.Run(name+" ends when the worker is stopped", func(t *testing.T) {
			began := make(chan struct{}, 1)
			r, _ := realRig(t, func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
				began <- struct{}{}
				return h(ctx, req)
			})
			r.cfg.Spec.Timeout = time.Hour
			w := engine.New(&r.shared, r.cfg)
			w.Start()
			<-began
			w.Stop()
			r.shared.Wait()
		})
	}
}

// realRig returns a rig for real time, and a channel of its ticks.
func realRig(t *testing.T, h probe.HandlerFunc) (r *rig, ticked chan worker.Tick) {
	ticked = make(chan worker.Tick, 1)
	r = contextRig(t, h)
	r.shared.Compat = probe.CompatHostTrouble // a starved test does not count as a stall
	r.cfg.Spec.Period, r.cfg.Observer = time.Hour, tickFunc(func(t *worker.Tick) { ticked <- *t })
	return r, ticked
}

// tickFunc is an observer that calls itself for each tick.
type tickFunc func(*worker.Tick)

func (f tickFunc) Tick(t *worker.Tick)          { f(t) }
func (tickFunc) Skipped(worker.SkipReason, int) {}
func (tickFunc) Close()                         {}
