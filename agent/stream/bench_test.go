package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/worker"
)

// BenchmarkTick measures the cost of the hub for a tick, on all processors at once.
func BenchmarkTick(b *testing.B) {
	for _, readers := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			w := newWorld()
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { w.hub.Run(ctx, w.state()) })
			for range readers {
				reader := w.hub.Attach(stream.Full)
				defer reader.Close()
			}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				var watches []worker.ProbeObserver
				for i := range 1000 {
					watches = append(watches, w.hub.Observe(infoOf(key("u", fmt.Sprint(i)))))
				}
				for i := 0; p.Next(); i++ {
					watches[i%len(watches)].Tick(nil)
				}
			})
			cancel()
			running.Wait()
		})
	}
}
