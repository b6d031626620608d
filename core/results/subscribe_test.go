package results_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// rest reads seq until no update has come for a millisecond of fake time.
func rest(t *testing.T, cancel context.CancelFunc, seq iter.Seq[results.Update]) (all []results.Update) {
	t.Helper()
	timer := time.AfterFunc(time.Millisecond, cancel)
	defer timer.Stop()
	for u := range seq {
		all = append(all, u)
		timer.Reset(time.Millisecond)
	}
	return all
}

func TestSubscribe(t *testing.T) {
	t.Run("sequence begins with the results in the caches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			liveness, readiness := results.New(probe.Liveness), results.New(probe.Readiness)
			liveness.Set("a", results.Success, &pod, results.Cause{})
			readiness.Set("a", results.Failure, &pod, results.Cause{})
			ctx, cancel := context.WithCancel(t.Context())
			want := []results.Update{
				{Kind: probe.Liveness, ContainerID: "a", Result: results.Success, Subject: pod},
				{Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Subject: pod},
			}
			if diff := cmp.Diff(want, rest(t, cancel, results.Subscribe(ctx, liveness, readiness)), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("updates before the first read are not lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			c.Set("a", results.Failure, &pod, results.Cause{})
			if got := rest(t, cancel, seq); len(got) != 1 || got[0].Result != results.Failure {
				t.Errorf("got %v", got)
			}
		})
	})
	t.Run("slow reader gets the newest state of each key once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			for i := range 1000 {
				for id := range 10 {
					c.Set(fmt.Sprint(id), results.Result((i+id)%2), &pod, results.Cause{})
				}
			}
			got := rest(t, cancel, seq)
			if len(got) != 10 {
				t.Fatalf("%d updates, want 10: %v", len(got), got)
			}
			for id, u := range got { // ordered by the keys' oldest unread change
				want := results.Update{Time: u.Time, Kind: probe.Liveness, ContainerID: fmt.Sprint(id), Result: results.Result((999 + id) % 2), Subject: pod}
				if u != want {
					t.Errorf("got %v, want %v", u, want)
				}
			}
		})
	})
	t.Run("slow reader gets the last result and the removal of a key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			liveness, readiness := results.New(probe.Liveness), results.New(probe.Readiness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, liveness, readiness)
			liveness.Set("a", results.Success, &pod, results.Cause{Reason: results.Initial})
			liveness.Set("a", results.Failure, &pod, results.Cause{Reason: "exec_exit"})
			readiness.Set("a", results.Failure, &pod, results.Cause{})
			liveness.Remove("a")
			want := []results.Update{
				{Kind: probe.Liveness, ContainerID: "a", Result: results.Failure, Cause: results.Cause{Reason: "exec_exit"}, Subject: pod},
				{Kind: probe.Liveness, ContainerID: "a", Result: results.Failure, Cause: results.Cause{Reason: "exec_exit"}, Removed: true, Subject: pod},
				{Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Subject: pod},
			}
			if diff := cmp.Diff(want, rest(t, cancel, seq), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestSubscribeAfterRemove(t *testing.T) {
	t.Run("key that was removed and set again is one update", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Startup)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			for range 100 { // like containers that are replaced while nobody reads
				c.Set("a", results.Unknown, &pod, results.Cause{})
				c.Remove("a")
			}
			c.Set("a", results.Success, &pod, results.Cause{})
			want := []results.Update{{Kind: probe.Startup, ContainerID: "a", Result: results.Success, Subject: pod}}
			if diff := cmp.Diff(want, rest(t, cancel, seq), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestSubscribers(t *testing.T) {
	t.Run("every subscriber gets every key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seen := make([][]results.Update, 3)
			var wg sync.WaitGroup
			for i := range seen {
				seq := results.Subscribe(ctx, c)
				wg.Go(func() {
					for u := range seq {
						seen[i] = append(seen[i], u)
					}
				})
			}
			for _, r := range []results.Result{results.Success, results.Failure, results.Success} {
				c.Set("a", r, &pod, results.Cause{})
				synctest.Wait() // all have read
			}
			cancel()
			wg.Wait()
			for i, got := range seen {
				if len(got) != 3 {
					t.Errorf("subscriber %d saw %v", i, got)
				}
			}
		})
	})
	t.Run("reader that leaves the loop is removed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			c.Set("a", results.Success, &pod, results.Cause{})
			for range seq {
				break
			}
			c.Set("a", results.Failure, &pod, results.Cause{})
			if got := rest(t, cancel, seq); len(got) > 0 {
				t.Errorf("after the loop was left: %v", got)
			}
		})
	})
	t.Run("end of the context ends the loop at once, with updates unread", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			c.Set("a", results.Success, &pod, results.Cause{})
			cancel()
			for u := range seq {
				t.Errorf("got %v", u)
			}
		})
	})
}

func TestReadersNeverBlockSet(t *testing.T) {
	t.Run("#232 Set does not block without a reader, or with readers that never read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			t.Cleanup(c.Close)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			results.Subscribe(ctx, c)
			c.Updates()
			before := time.Now()
			for i := range 10_000 {
				c.Set("a", results.Result(i%2), &pod, results.Cause{})
			}
			if waited := time.Since(before); waited != 0 {
				t.Errorf("Set waited %v", waited)
			}
		})
	})
	t.Run("readers of concurrent changes end with the state of the cache", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := results.New(probe.Liveness)
			ctx, cancel := context.WithCancel(t.Context())
			seq := results.Subscribe(ctx, c)
			var wg sync.WaitGroup
			for writer := range 8 {
				wg.Go(func() {
					for i := range 500 {
						c.Set(fmt.Sprint(i%7), results.Result((i+writer)%2), &pod, results.Cause{})
					}
				})
			}
			last := make(map[string]results.Result)
			var reader sync.WaitGroup
			reader.Go(func() {
				for u := range seq {
					last[u.ContainerID] = u.Result
				}
			})
			wg.Wait()
			synctest.Wait()
			cancel()
			reader.Wait()
			for id, r := range last {
				if got, _ := c.Get(id); got != r {
					t.Errorf("container %s: the reader's last is %v, the cache has %v", id, r, got)
				}
			}
			if len(last) != 7 {
				t.Errorf("%d containers were told, want 7", len(last))
			}
		})
	})
}

func BenchmarkSet(b *testing.B) {
	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = fmt.Sprintf("containerd://%064d", i)
	}
	for _, readers := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("stoppedReaders=%d", readers), func(b *testing.B) {
			c := results.New(probe.Liveness)
			for range readers {
				results.Subscribe(b.Context(), c)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Set(ids[i%len(ids)], results.Result(i/len(ids)%2), &pod, results.Cause{})
				i++
			}
		})
	}
}

// BenchmarkReadAll measures a reader of all results, and the memory that its subscription keeps for each
// result afterwards.
func BenchmarkReadAll(b *testing.B) {
	const containers = 100_000
	c := results.New(probe.Readiness)
	for i := range containers {
		c.Set(fmt.Sprint(i), results.Success, &pod, results.Cause{})
	}
	b.Run(fmt.Sprintf("containers=%d", containers), func(b *testing.B) {
		var kept uint64
		for b.Loop() {
			before := heap()
			next, stop := iter.Pull(results.Subscribe(b.Context(), c))
			for range containers {
				next()
			}
			kept = max(heap(), before) - before
			stop()
		}
		b.ReportMetric(float64(kept)/containers, "kept-B/container")
	})
}

// heap returns the size of the live objects in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
