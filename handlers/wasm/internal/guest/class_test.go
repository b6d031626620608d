package guest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/probe"
)

// guestFunc is a function of a guest.
type guestFunc struct {
	api.Function
	call func()
}

func (f guestFunc) CallWithStack(context.Context, []uint64) error {
	f.call()
	return nil
}

func TestClassIgnoresWaitsForSlots(t *testing.T) {
	for _, tc := range []struct {
		computes, waits time.Duration // of the timeout of one second
		want            sched.Class
	}{
		{computes: 100 * time.Millisecond, want: sched.Prompt},
		{computes: 950 * time.Millisecond, want: sched.Slow},
		{computes: 100 * time.Millisecond, waits: 850 * time.Millisecond, want: sched.Prompt},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Plugin{Host: &Host{Clock: SystemClock{}, Slots: sched.NewSlots(0, func() bool { return false })}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var c Call
			c.Init(ctx, p, &probe.Request{}, nil, nil, time.Now())
			w := NewWorld(p, nil)
			w.Begin(&c)
			if err := w.Enter(ctx, guestFunc{call: func() {
				time.Sleep(tc.computes)
				time.AfterFunc(tc.waits, p.Host.Slots.Release)
				c.Acquire()
			}}, nil); err != nil {
				t.Fatal(err)
			}
			if got := c.Class(c.Ended(), time.Now()); got != tc.want {
				t.Errorf("computes %v, waits %v: got class %v, want %v", tc.computes, tc.waits, got, tc.want)
			}
		})
	}
}
