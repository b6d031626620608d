package browser

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// hostile is the answer of a hostile target: markup, escape sequences, invalid UTF-8, characters that change
// the direction of text, and a URL.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\x1b]0;title\x07\r\n\xff\xfe\u202egnp.exe\u2066 javascript:alert(3)"

// targets are the servers that are probed.
type targets struct {
	web     *httptest.Server
	rpcPort string
	up      atomic.Bool // whether /switch succeeds
}

func newTargets(t testing.TB) *targets {
	t.Helper()
	w := new(targets)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/switch", func(rw http.ResponseWriter, _ *http.Request) {
		if !w.up.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/down", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(rw, "no \x1b[31mdatabase\xff\n")
	})
	mux.HandleFunc("/hostile", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(rw, hostile+strings.Repeat("x", 1<<20))
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w.web = httptest.NewServer(mux)
	t.Cleanup(w.web.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, states := grpc.NewServer(), health.NewServer()
	states.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(server, states)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	_, w.rpcPort, _ = net.SplitHostPort(listener.Addr().String())
	return w
}

func (w *targets) webPort() string {
	_, port, _ := net.SplitHostPort(w.web.Listener.Addr().String())
	return port
}

// fill replaces the ports in a manifest.
func (w *targets) fill(text string) string {
	return strings.NewReplacer("WEBPORT", w.webPort(), "RPCPORT", w.rpcPort).Replace(text)
}

// plugins builds the guest and the program that the other tests use, once.
var plugins = sync.OnceValues(func() (dir string, err error) {
	if dir, err = filepath.Abs(filepath.Join(root, "bin/browser/plugins")); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "guest"), 0o755); err != nil {
		return "", err
	}
	for _, build := range []struct {
		env  []string
		args []string
	}{
		{[]string{"GOOS=wasip1", "GOARCH=wasm"}, []string{"-buildmode=c-shared", "-o", filepath.Join(dir, "guest/guest.wasm"), "./handlers/wasm/testdata/guest"}},
		{nil, []string{"-o", filepath.Join(dir, "prober-plugin-tester"), "./handlers/process/testdata/plugin"}},
	} {
		cmd := exec.Command("go", append([]string{"build"}, build.args...)...)
		cmd.Dir = root
		cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), build.env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, text)
		}
	}
	return dir, nil
})

// failing has every kind of handler and of failure, as testdata/script/explain.txtar of cmd/prober.
const failing = `
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web: {readiness: {plugin: {name: httpcheck, target: {host: 127.0.0.1, port: WEBPORT}, config: {url: /down}}, period: 1s, timeout: 10s}}
      denied: {readiness: {plugin: {name: guest, config: {do: dial, addr: "10.9.8.7:80"}}, period: 1s}}
      spins: {readiness: {plugin: {name: guest, config: {do: spin}}, period: 4s, timeout: 2s}}
      traps: {readiness: {plugin: {name: guest, config: {do: panic}}, period: 1s, timeout: 10s}}
      dies: {readiness: {plugin: {name: tester, config: {mode: die}}, period: 2s, timeout: 10s}}
      waits: {readiness: {plugin: {name: tester, config: {mode: hang}}, period: 4s, timeout: 2s}}
      check: {readiness: {plugin: {name: queue}, period: 1s, timeout: 10s}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: http
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /down}, periodSeconds: 1, timeoutSeconds: 10}
  - name: good
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /ok}, periodSeconds: 1, timeoutSeconds: 10}
  - name: slow
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /slow}, periodSeconds: 4, timeoutSeconds: 2}
  - name: tcp
    command: [sleep, "600"]
    readinessProbe: {tcpSocket: {host: 127.0.0.1, port: 1}, periodSeconds: 1, timeoutSeconds: 10}
  - name: grpc
    command: [sleep, "600"]
    readinessProbe: {grpc: {port: RPCPORT, service: down}, periodSeconds: 1, timeoutSeconds: 10}
  - name: exec
    command: [sleep, "600"]
    readinessProbe: {exec: {command: [sh, -c, "printf '\\033[31m<b>\\377 no'; exit 3"]}, periodSeconds: 1, timeoutSeconds: 10}
  - name: hostile
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /hostile}, periodSeconds: 2, timeoutSeconds: 10}
  - name: shout
    command: [sleep, "600"]
    readinessProbe: {exec: {command: [sh, hostile.sh]}, periodSeconds: 2, timeoutSeconds: 10}
  - name: later
    command: [sleep, "600"]
    readinessProbe: {exec: {command: ["true"]}}
    startupProbe: {exec: {command: ["true"]}, initialDelaySeconds: 3000}
  - name: crash
    command: [sh, -c, "exit 7"]
  - {name: web, command: [sleep, "600"]}
  - {name: denied, command: [sleep, "600"]}
  - {name: spins, command: [sleep, "600"]}
  - {name: traps, command: [sleep, "600"]}
  - {name: dies, command: [sleep, "600"]}
  - {name: waits, command: [sleep, "600"]}
  - {name: check, command: [sleep, "600"]}
`

const failingConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
nagios: {folders: [checks]}
secrets: {allow: ["file:/no/such/*"]}
targets:
- name: hosts
  probe: {tcpSocket: {}, period: 10s}
  static: ["127.0.0.1:WEBPORT"]
  file: [hosts.json]
`

const missingSecret = `
apiVersion: v1
kind: Pod
metadata:
  name: store
  annotations:
    prober.dev/probes: |
      db: {readiness: {plugin: {name: guest, config: {label: "${file:/no/such/file}"}}}}
spec:
  containers:
  - {name: db, command: [sleep, "600"]}
`

// startWorld starts an agent whose probes fail in every way.
func startWorld(t testing.TB) *agent {
	t.Helper()
	w := newTargets(t)
	built, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"pods/pod.yaml": w.fill(failing), "prober.yaml": w.fill(failingConfig), "hosts.json": `[{"targets": ["no-port-at-all"]}]`,
		"plugins/guest/plugin.yaml":         "apiVersion: prober.dev/v1\nkind: Plugin\nname: guest\nversion: 1.0.0\nmode: reactor\nabi: 1\nrequests:\n- capability: net\n  allow: [target]\n",
		"plugins/prober-plugin-tester.yaml": "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n",
		"plugins/queue/plugin.yaml":         "apiVersion: prober.dev/v1\nname: queue\nversion: 1.0.0\nruntime: nagios\ncommand: [check_queue]\n",
		"checks/check_queue":                "#!/bin/sh\necho \"QUEUE CRITICAL: 9 waiting | queue=9\"\nexit 2\n",
		"hostile.sh":                        "cat hostile.txt; exit 1\n",
		"hostile.txt":                       hostile + strings.Repeat("y", 1<<20),
	}
	for name, from := range map[string]string{"plugins/guest/guest.wasm": "guest/guest.wasm", "plugins/prober-plugin-tester": "prober-plugin-tester"} {
		text, err := os.ReadFile(filepath.Join(built, from))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	dir := prepare(t, files)
	for _, program := range []string{"plugins/prober-plugin-tester", "checks/check_queue"} {
		if err := os.Chmod(filepath.Join(dir, program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, open := range []string{"plugins", "checks", "plugins/queue", "plugins/guest"} {
		if err := os.Chmod(filepath.Join(dir, open), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return runAgent(t, dir, "-f", "pods", "--plugins", "plugins", "--config", "prober.yaml", "--show-output")
}
