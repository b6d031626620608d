package plugincmd

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/internal/cli/command"
)

// A slow transfer prints progress periodically, not at each byte.
func TestProgressPrintsSlowTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		env := &command.Env{Stderr: &errs}
		tell := progress(env, "pull demo")
		for done := range int64(50) {
			tell(done<<20/10, 5<<20)
			time.Sleep(100 * time.Millisecond)
		}
		want := "prober: pull demo: 2.1 of 5.0 MiB\nprober: pull demo: 4.2 of 5.0 MiB\n"
		if got := errs.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Concurrent transfers print a common progress.
func TestProgressIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		env := &command.Env{Stderr: &errs}
		tell := progress(env, "push demo")
		var transfers sync.WaitGroup
		for range 50 {
			transfers.Go(func() {
				time.Sleep(2 * progressPeriod)
				tell(1<<20, 2<<20)
			})
		}
		transfers.Wait()
		if got, want := errs.String(), "prober: push demo: 1.0 of 2.0 MiB\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
