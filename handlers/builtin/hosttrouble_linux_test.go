package builtin_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestWithoutDescriptors probes healthy targets in a process without free descriptors. There must be
// Failures only with [probe.CompatHostTrouble], and Successes once descriptors are free.
func TestWithoutDescriptors(t *testing.T) {
	const variable = "BUILTIN_TEST_PORTS"
	ports := os.Getenv(variable)
	if ports == "" { // run a child, because the limit applies to a whole process, and this one has the targets
		_, port := rig.Serve(t, func(http.ResponseWriter, *http.Request) {})
		l, grpcPort := rig.Loopback(t)
		rig.ServeGRPC(t, l, rig.Answers(healthpb.HealthCheckResponse_SERVING))
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutDescriptors$")
		// With cgo, getaddrinfo of libc may report the lack of a descriptor as a failed look-up.
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", variable, port, grpcPort), "GODEBUG=netdns=go")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var port, grpcPort int
	if _, err := fmt.Sscan(ports, &port, &grpcPort); err != nil {
		t.Fatal(err)
	}
	probes := func(compat probe.Compat) map[string]probe.Handler {
		all := dialling(builtin.Config{Compat: compat})
		return map[string]probe.Handler{
			"tcp":            rig.Prepare(t, all["tcp"], fmt.Sprintf(`{"port":%d}`, port)),
			"http":           rig.Prepare(t, all["http"], fmt.Sprintf(`{"port":%d}`, port)),
			"http of a name": rig.Prepare(t, all["http"], fmt.Sprintf(`{"port":%d,"host":"localhost"}`, port)),
			"grpc":           rig.Prepare(t, all["grpc"], fmt.Sprintf(`{"port":%d}`, grpcPort)),
			"exec":           execHandler(t, new(builtin.HostRunner), "true"),
		}
	}
	ask := func(h probe.Handler, timeout time.Duration) (probe.Outcome, error) {
		return rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, timeout)
	}
	allow := forbidDescriptors(t)
	for name, h := range probes(0) {
		for range 3 {
			if got, err := ask(h, 300*time.Millisecond); got.Result != probe.Unknown || probe.ReasonOf(err) != probe.ReasonHostResources {
				t.Errorf("%s: got %v, output %q, error %v; want an error of the host", name, got.Result, got.Output, err)
			}
		}
	}
	for name, h := range probes(probe.CompatHostTrouble) {
		got, err := ask(h, 300*time.Millisecond)
		if name == "exec" && err == nil || name != "exec" && (err != nil || got.Result != probe.Failure) {
			t.Errorf("%s with the switch: got %v, error %v; want an error of exec, and else a failure", name, got.Result, err)
		}
	}
	allow()
	for name, h := range probes(0) {
		if got, err := ask(h, time.Minute); err != nil || got.Result != probe.Success {
			t.Errorf("%s with descriptors: got %v, output %q, error %v; want success", name, got.Result, got.Output, err)
		}
	}
}

// forbidDescriptors prevents this process from opening descriptors until allow is called.
func forbidDescriptors(t *testing.T) (allow func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
}
