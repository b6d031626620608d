package agent_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const (
	fleetProbes  = 5000
	fleetPod     = 4 // probes per pod
	fleetPeriod  = 10 * time.Second
	fleetTimeout = time.Second
	fleetWarm    = 3 * fleetPeriod  // by then, black holes have been detected
	fleetTime    = 20 * time.Second // measured after fleetWarm
)

// BenchmarkFleet measures a host with many probes of one Go plugin: the resources of the process compared
// with the same process without probes, and the effect of targets that never respond on probes with a healthy
// target. One iteration is the whole measurement. The targets run in the same process, and their resources
// are included.
func BenchmarkFleet(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(agent.GCPercent)) // as prober run does
	module := redisPlugin(b)
	for _, hung := range []int{0, fleetProbes / 2} {
		b.Run(fmt.Sprintf("probes=%d/blackholed=%d", fleetProbes, hung), func(b *testing.B) {
			for b.Loop() {
				runFleet(b, module, hung)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// redisPlugin builds the example with the stock toolchain.
func redisPlugin(b *testing.B) []byte {
	out := filepath.Join(b.TempDir(), "redis.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = "../examples/plugins/redis"
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	manifest, err := os.ReadFile("../examples/plugins/redis/plugin.yaml")
	if err != nil {
		b.Fatal(err)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	if module, err = plugin.Embed(module, manifest); err != nil {
		b.Fatal(err)
	}
	return module
}

func runFleet(b *testing.B, module []byte, hung int) {
	healthy, dead := listenRedis(b), listenNobody(b)
	host, err := wasm.New(wasm.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	loaded := time.Now()
	p, err := host.Load(b.Context(), plugin.Found{Module: module})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(loaded).Milliseconds()), "load-ms")
	var registry handlers.Registry
	if err := registry.Register("redis", "benchmark", p); err != nil {
		b.Fatal(err)
	}
	store, log := new(manager.StatusStore), newFleetLog()
	m, err := manager.New(manager.Config{
		Status: store, Handlers: &registry, Observers: []worker.Observer{log, metrics.New(metrics.Config{})},
	})
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	idle := resident(b)
	added := time.Now()
	for i := range fleetProbes / fleetPod {
		target, name := healthy, fmt.Sprint("pod-", i)
		if i < hung/fleetPod {
			target, name = dead, fmt.Sprint("hung-", i)
		}
		addFleet(b, m, store, name, target)
	}
	b.ReportMetric(time.Since(added).Seconds(), "add-s")
	log.begin(fleetWarm)
	peak := watchFleet(b, p, fleetWarm+fleetTime)
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peak.resident-idle)/(1<<20), "MiB-above-idle")
	b.ReportMetric(float64(peak.instances), "instances")
	for limit, n := range p.Stats().Limits {
		b.ReportMetric(float64(n), fmt.Sprintf("hits-of-%s", limit))
	}
	log.report(b)
}

// fleetPeak has the maximum of each measured value.
type fleetPeak struct {
	resident  int64
	instances int
}

func watchFleet(b *testing.B, p *wasm.Handler, d time.Duration) (peak fleetPeak) {
	end := time.After(d)
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
			stats := p.Stats()
			peak.instances = max(peak.instances, stats.Idle+stats.Busy)
			peak.resident = max(peak.resident, resident(b))
		case <-end:
			tick.Stop()
			return peak
		}
	}
}

// resident returns the proportional set size (Pss) of the process in bytes: a page shared by several guests
// counts once.
func resident(b testing.TB) int64 {
	b.Helper()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(rollup), "Pss:")
	number, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	kib, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// addFleet adds a pod of two containers with two probes each.
func addFleet(b *testing.B, m *manager.Manager, store *manager.StatusStore, name string, target probe.Target) {
	check := fmt.Sprintf("{plugin: {name: redis, target: {host: %s, port: %d}}, period: %v, timeout: %v}",
		target.Host, target.Port, fleetPeriod, fleetTimeout)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{
		declared.Annotation: fmt.Sprintf("a: {readiness: %[1]s, liveness: %[1]s}\nb: {readiness: %[1]s, liveness: %[1]s}", check),
	}}}
	status := v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1"}
	for _, container := range []string{"a", "b"} {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: container})
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name: container, ContainerID: fmt.Sprintf("containerd://%s/%s", name, container), Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	store.SetPodStatus(pod, status)
	if err := m.AddPod(b.Context(), pod); err != nil {
		b.Fatal(err)
	}
}

// fleetLog records ticks and their delays.
type fleetLog struct {
	healthy, hung *fleetPage
}

// fleetPage has the records of one half of the probes, for ticks due after from.
type fleetPage struct {
	mu       sync.Mutex
	from     time.Time // zero: not started
	lags     []time.Duration
	took     []time.Duration
	skipped  int
	outcomes map[string]int
}

func newFleetLog() *fleetLog {
	return &fleetLog{
		healthy: &fleetPage{outcomes: make(map[string]int)},
		hung:    &fleetPage{outcomes: make(map[string]int)},
	}
}

// begin starts the recording after a delay.
func (l *fleetLog) begin(after time.Duration) {
	for _, p := range []*fleetPage{l.healthy, l.hung} {
		p.mu.Lock()
		p.from = time.Now().Add(after)
		p.mu.Unlock()
	}
}

// Observe implements [worker.Observer].
func (l *fleetLog) Observe(i worker.Info) worker.ProbeObserver {
	if strings.HasPrefix(i.Pod, "hung-") {
		return l.hung
	}
	return l.healthy
}

func (p *fleetPage) Tick(t *worker.Tick) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.from.IsZero() || t.Due.Before(p.from) {
		return
	}
	p.lags = append(p.lags, t.Start.Sub(t.Due))
	p.took = append(p.took, t.End.Sub(t.Start))
	if t.Err != nil {
		p.outcomes["errors"]++
		return
	}
	p.outcomes[t.Outcome.Result.String()]++
}

func (p *fleetPage) Skipped(_ worker.SkipReason, ticks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.from.IsZero() && time.Now().After(p.from) {
		p.skipped += ticks
	}
}

func (p *fleetPage) Close() {}

func (l *fleetLog) report(b *testing.B) {
	for name, page := range map[string]*fleetPage{"healthy": l.healthy, "hung": l.hung} {
		if len(page.lags) == 0 {
			continue
		}
		slices.Sort(page.lags)
		slices.Sort(page.took)
		at := func(of []time.Duration, q float64) float64 {
			return float64(of[min(int(q*float64(len(of))), len(of)-1)].Microseconds()) / 1000
		}
		b.ReportMetric(at(page.lags, 0.99), name+"-p99-lag-ms")
		b.ReportMetric(at(page.lags, 1), name+"-max-lag-ms")
		b.ReportMetric(at(page.took, 0.5), name+"-p50-ms")
		b.ReportMetric(at(page.took, 0.99), name+"-p99-ms")
		b.ReportMetric(float64(page.skipped), name+"-skipped")
		for outcome, n := range page.outcomes {
			b.ReportMetric(float64(n), name+"-"+outcome)
		}
	}
}

// listenRedis responds like a redis server without replicas.
func listenRedis(b *testing.B) probe.Target {
	return listen(b, func(conn net.Conn) {
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			switch strings.ToUpper(lines.Text()) {
			case "PING":
				fmt.Fprint(conn, "+PONG\r\n")
			case "INFO":
				fmt.Fprint(conn, "$11\r\nrole:master\r\n")
			}
		}
	})
}

// listenNobody accepts connections and never responds.
func listenNobody(b *testing.B) probe.Target {
	return listen(b, func(conn net.Conn) {
		defer conn.Close()
		_, _ = bufio.NewReader(conn).WriteTo(discard{})
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func listen(b *testing.B, serve func(net.Conn)) probe.Target {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { serve(conn) })
		}
	})
	b.Cleanup(func() {
		l.Close()
		served.Wait()
	})
	addr := l.Addr().(*net.TCPAddr)
	return probe.Target{Host: addr.IP.String(), Port: addr.Port}
}
