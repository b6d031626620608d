package builtin_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// subjects returns one handler of each name, bound to a good target on loopback.
func subjects(b *testing.B) map[string]probe.Handler {
	_, httpPort := rig.Serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	l, grpcPort := rig.Loopback(b)
	rig.ServeGRPC(b, l, rig.Answers(healthpb.HealthCheckResponse_SERVING))
	tcpPort := rig.PortOf(b, rig.Listen(b, "tcp", "127.0.0.1:0"))
	return map[string]probe.Handler{
		"http": rig.Prepare(b, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"path":"/healthz"}`, httpPort)),
		"tcp":  rig.Prepare(b, builtin.NewTCP(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, tcpPort)),
		"grpc": rig.Prepare(b, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, grpcPort)),
		"exec": execHandler(b, new(builtin.HostRunner), "/bin/true"),
	}
}

func BenchmarkProbe(b *testing.B) {
	all := subjects(b)
	for _, name := range []string{"http", "tcp", "grpc", "exec"} {
		for _, c := range []int{1, 16, 256} {
			if name == "exec" && c > 16 {
				continue // it would measure only fork
			}
			b.Run(fmt.Sprintf("handler=%s/c=%d", name, c), func(b *testing.B) {
				b.ReportAllocs()
				if c == 1 {
					for b.Loop() {
						mustSucceed(b, all[name])
					}
					return
				}
				b.SetParallelism(max(1, c/runtime.GOMAXPROCS(0)))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						mustSucceed(b, all[name])
					}
				})
			})
		}
	}
}

// BenchmarkOneTarget is conformance item #88: 600 probes a second of one address, none of which
// may fail for lack of a port. A run as long as upstream's:
//
//	go test -run=^$ -bench=OneTarget -benchtime=59s ./handlers/builtin
func BenchmarkOneTarget(b *testing.B) {
	all := subjects(b)
	for _, name := range []string{"tcp", "http"} {
		b.Run("item=88/handler="+name, func(b *testing.B) {
			var wg sync.WaitGroup
			var probes atomic.Int64
			due := time.NewTicker(time.Second / 600)
			defer due.Stop()
			start := time.Now()
			for b.Loop() {
				<-due.C
				wg.Go(func() {
					mustSucceed(b, all[name])
					probes.Add(1)
				})
			}
			wg.Wait()
			b.ReportMetric(float64(probes.Load())/time.Since(start).Seconds(), "probes/s")
		})
	}
}

func mustSucceed(b *testing.B, h probe.Handler) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	got, err := h.Probe(ctx, probe.Request{PodIP: "127.0.0.1", Spec: probe.Spec{Timeout: 30 * time.Second}})
	if err != nil || got.Result != probe.Success {
		b.Errorf("got %v, output %q, error %v", got.Result, got.Output, err)
	}
}
