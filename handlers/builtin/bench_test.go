package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// targetPorts has the ports of the probed servers.
type targetPorts struct{ HTTP, TCP, GRPC, HTTPS int }

// serveTargets is set in the environment of the server process. It is a second process of this test program,
// so that the resources of the servers are not counted.
const serveTargets = "PROBER_BENCHMARK_TARGETS"

// startTargets starts the server process. It exits when its stdin is closed.
func startTargets(b *testing.B) (ports targetPorts) {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), program)
	cmd.Env, cmd.Stderr = append(os.Environ(), serveTargets+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // the end of b.Context has killed it
	})
	if err := json.NewDecoder(out).Decode(&ports); err != nil {
		b.Fatal("the servers did not start: ", err)
	}
	return ports
}

// runTargets serves until the end of stdin.
func runTargets() error {
	var listeners [4]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners[i] = l
	}
	health := grpc.NewServer()
	healthpb.RegisterHealthServer(health, rig.Answers(healthpb.HealthCheckResponse_SERVING))
	ended := make(chan error, len(listeners))
	web := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	go func() { ended <- http.Serve(listeners[0], web) }()
	secure := httptest.NewUnstartedServer(web)
	secure.Listener.Close()
	secure.Listener = listeners[3]
	secure.StartTLS()
	defer secure.Close()
	go func() {
		for {
			conn, err := listeners[1].Accept()
			if err != nil {
				ended <- err
				return
			}
			conn.Close()
		}
	}()
	go func() { ended <- health.Serve(listeners[2]) }()
	port := func(i int) int { return listeners[i].Addr().(*net.TCPAddr).Port }
	if err := json.NewEncoder(os.Stdout).Encode(targetPorts{HTTP: port(0), TCP: port(1), GRPC: port(2), HTTPS: port(3)}); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	return <-ended
}

// subjects returns the handlers by name, each bound to a healthy target on loopback in another process.
func subjects(b *testing.B) map[string]probe.Handler {
	ports := startTargets(b)
	return map[string]probe.Handler{
		"http":  rig.Prepare(b, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"port":%d,"path":"/healthz"}`, ports.HTTP)),
		"https": rig.Prepare(b, builtin.NewHTTP(builtin.Config{}), fmt.Sprintf(`{"scheme":"HTTPS","port":%d,"path":"/healthz"}`, ports.HTTPS)),
		"tcp":   rig.Prepare(b, builtin.NewTCP(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, ports.TCP)),
		"grpc":  rig.Prepare(b, builtin.NewGRPC(builtin.Config{}), fmt.Sprintf(`{"port":%d}`, ports.GRPC)),
		"exec":  execHandler(b, new(builtin.HostRunner), "/bin/true"),
	}
}

func BenchmarkProbe(b *testing.B) {
	all := subjects(b)
	for _, name := range []string{"http", "https", "tcp", "grpc", "exec"} {
		for _, c := range []int{1, 16, 256} {
			if name == "exec" && c > 16 {
				continue // it would measure only fork
			}
			b.Run(fmt.Sprintf("handler=%s/c=%d", name, c), func(b *testing.B) {
				b.ReportAllocs()
				if c == 1 {
					for b.Loop() {
						mustSucceed(b, all[name], nil)
					}
					return
				}
				b.SetParallelism(max(1, c/runtime.GOMAXPROCS(0)))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						mustSucceed(b, all[name], nil)
					}
				})
			})
		}
	}
}

// BenchmarkTraced is like BenchmarkProbe, and traces each attempt.
func BenchmarkTraced(b *testing.B) {
	all := subjects(b)
	for _, name := range []string{"http", "tcp", "grpc", "exec"} {
		for _, trace := range []probe.Tracer{nil, func(probe.TraceEvent) {}} {
			b.Run(fmt.Sprintf("handler=%s/traced=%t", name, trace != nil), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mustSucceed(b, all[name], trace)
				}
			})
		}
	}
}

// BenchmarkOneTarget is conformance item #88: 600 probes a second of one address. None may fail because of a
// lack of ports. To run it as long as upstream:
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
					mustSucceed(b, all[name], nil)
					probes.Add(1)
				})
			}
			wg.Wait()
			b.ReportMetric(float64(probes.Load())/time.Since(start).Seconds(), "probes/s")
		})
	}
}

func mustSucceed(b *testing.B, h probe.Handler, trace probe.Tracer) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	got, err := h.Probe(ctx, probe.Request{PodIP: "127.0.0.1", Spec: probe.Spec{Timeout: 30 * time.Second}, Trace: trace})
	if err != nil || got.Result != probe.Success {
		b.Errorf("got %v, output %q, error %v", got.Result, got.Output, err)
	}
}
