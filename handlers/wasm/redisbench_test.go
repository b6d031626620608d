package wasm_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// BenchmarkRedis measures an attempt of examples/plugins/redis with a local redis-server: a connection,
// then PING and INFO in one write. For comparison, lang=native makes the same exchange in Go without a
// guest.
func BenchmarkRedis(b *testing.B) {
	target := redisServer(b)
	module := redisGuest(b)
	for _, isolation := range []plugin.Isolation{plugin.Pooled, plugin.Reset} {
		b.Run(fmt.Sprintf("lang=go/isolation=%s", isolation), func(b *testing.B) {
			m := plugin.Minimal("redis")
			m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
			m.Requests = []plugin.Request{{Capability: plugin.CapabilityNet, Allow: []string{"target"}}}
			p, err := host.Load(b.Context(), plugin.Found{Module: module, Manifest: m})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			h := bind(b, p, `{"replication":true,"maxLag":"10s"}`, target)
			req := probe.Request{Target: target, Attempt: 1, Spec: probe.Spec{Timeout: time.Minute, Period: 10 * time.Second, FailureThreshold: 3}}
			b.ReportAllocs()
			before := p.Stats().Fuel
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				if out, err := h.Probe(ctx, req); err != nil || out.Result != probe.Success {
					b.Fatal(out, err)
				}
				cancel()
			}
			b.ReportMetric(float64(p.Stats().Fuel-before)/float64(b.N), "fuel/op")
		})
	}
	b.Run("lang=native", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := askRedis(b.Context(), target); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// redisServer starts a redis-server without files. The benchmark's cleanup stops it.
func redisServer(b *testing.B) probe.Target {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir())
	if err := cmd.Start(); err != nil {
		b.Fatalf("this benchmark needs redis-server: %v", err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	target := probe.Target{Host: "127.0.0.1", Port: port}
	for start := time.Now(); askRedis(b.Context(), target) != nil; {
		if time.Since(start) > patience {
			b.Fatal("redis-server does not answer")
		}
	}
	return target
}

// redisGuest builds examples/plugins/redis.
func redisGuest(b *testing.B) []byte {
	out := filepath.Join(b.TempDir(), "redis.wasm")
	cmd := exec.Command("go", "build", "-C", "../../examples/plugins/redis", "-buildmode=c-shared", "-o", out, ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	return module
}

// askRedis makes the same exchange as the plugin.
func askRedis(ctx context.Context, target probe.Target) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(target.Host, strconv.Itoa(target.Port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"); err != nil {
		return err
	}
	if line, err := r.ReadString('\n'); err != nil || line != "+PONG\r\n" {
		return fmt.Errorf("%q: %w", line, err)
	}
	var n int
	if _, err := fmt.Fscanf(r, "$%d\r\n", &n); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r, int64(n)+2)
	return err
}
