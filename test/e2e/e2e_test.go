//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const bin = "../../bin"

// verdict is the output of `prober probe -o json`.
type verdict struct {
	Result  string `json:"result"`
	Output  string `json:"output"`
	Error   string `json:"error"`
	Metrics []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	} `json:"metrics"`
}

// probePlugin runs one plugin against target and returns its verdict and exit code.
func probePlugin(t *testing.T, plugin, target, config string) (verdict, int) {
	t.Helper()
	return probePluginIn(t, filepath.Join(bin, "plugins"), plugin, target, config)
}

// probePluginIn is like probePlugin, for a plugin in the folder dir.
func probePluginIn(t *testing.T, dir, plugin, target, config string, args ...string) (verdict, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "prober"), "probe", "plugin", plugin, "--plugins",
		dir, "--target", target, "--config", config, "--timeout", "15s", "-o", "json")
	cmd.Args = append(cmd.Args, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var v verdict
	if err := json.Unmarshal(stdout.Bytes(), &v); err != nil {
		t.Fatalf("exit %d, stdout %q, stderr %q: %v", code, stdout.String(), stderr.String(), err)
	}
	return v, code
}

// want compares a verdict with the expected one. text is a part of the output or error.
func want(t *testing.T, v verdict, code int, result, text string) {
	t.Helper()
	codes := map[string]int{"success": 0, "warning": 1, "failure": 2, "unknown": 3}
	if v.Result != result || code != codes[result] || !strings.Contains(v.Output+v.Error, text) {
		t.Errorf("got %+v, exit %d; want %s, exit %d, with %q in it", v, code, result, codes[result], text)
	}
}

// redis starts a real server with args and returns its address.
func redis(t *testing.T, args ...string) string {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)
	listening(t, address, exec.Command("redis-server", args...))
	return address
}

// nextPort counts the ports that freeAddress has tried.
var nextPort atomic.Int32

// freeAddress returns an unused address, a different one at each call. Its port is outside the range of
// ephemeral ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprint("127.0.0.1:", 10_000+(97*os.Getpid()+int(nextPort.Add(1)))%20_000)
		l, err := net.Listen("tcp", address)
		if err == nil {
			l.Close()
			return address
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// await checks a condition every 50 ms, until it is true. It fails the test after 3 min.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 3 min for %s", what)
		}
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	plain := redis(t)
	locked := redis(t, "--requirepass", "open sesame")

	t.Run("answers PING", func(t *testing.T) {
		v, code := probePlugin(t, "redis", plain, `{}`)
		want(t, v, code, "success", "")
	})
	t.Run("with the right password", func(t *testing.T) {
		v, code := probePlugin(t, "redis", locked, `{"password":"open sesame"}`)
		want(t, v, code, "success", "")
	})
	t.Run("with a wrong password", func(t *testing.T) {
		v, code := probePlugin(t, "redis", locked, `{"password":"guess"}`)
		want(t, v, code, "failure", "WRONGPASS")
		if strings.Contains(v.Output, "guess") {
			t.Errorf("the output has the password: %q", v.Output)
		}
	})
	t.Run("without a password", func(t *testing.T) {
		v, code := probePlugin(t, "redis", locked, `{}`)
		want(t, v, code, "failure", "NOAUTH")
	})
	t.Run("connection refused", func(t *testing.T) {
		v, code := probePlugin(t, "redis", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
}

func TestRedisReplica(t *testing.T) {
	t.Parallel()
	primary := redis(t, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	host, port, _ := net.SplitHostPort(primary)
	replica := redis(t, "--replicaof", host+" "+port)
	lost := redis(t, "--replicaof", strings.Replace(freeAddress(t), ":", " ", 1))

	t.Run("the link is up", func(t *testing.T) {
		await(t, "the replica to be in sync", func() bool {
			v, _ := probePlugin(t, "redis", replica, `{"maxLag":"30s"}`)
			return v.Result == "success"
		})
	})
	t.Run("the link is down", func(t *testing.T) {
		v, code := probePlugin(t, "redis", lost, `{"maxLag":"30s"}`)
		want(t, v, code, "failure", "link")
	})
}

func TestHTTPJSON(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"queue":{"depth":7},"state":"green"}`)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct{ name, config, result string }{
		{"within the thresholds", `{"path":"/status","field":"queue.depth","warn":{"max":10},"fail":{"max":100}}`, "success"},
		{"above the warning limit", `{"path":"/status","field":"queue.depth","warn":{"max":5},"fail":{"max":100}}`, "warning"},
		{"above the critical limit", `{"path":"/status","field":"queue.depth","warn":{"max":2},"fail":{"max":5}}`, "failure"},
		{"another state", `{"path":"/status","field":"state","fail":{"equals":"red"}}`, "failure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "httpjson", address, c.config)
			want(t, v, code, c.result, "")
		})
	}
}

// TestQuickstart runs the command of `make run`. The pod must become ready, and the container that becomes
// unhealthy must be restarted. No process may be left afterwards.
func TestQuickstart(t *testing.T) {
	addrFile := filepath.Join(t.TempDir(), "addr")
	cmd := exec.Command("bin/prober", "run", "-f", "examples/quickstart/pod.yaml", "--plugins", "bin/plugins",
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--restart-backoff", "2s")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var address string
	await(t, "the address", func() bool {
		text, err := os.ReadFile(addrFile)
		address = strings.TrimSpace(string(text))
		return err == nil && address != ""
	})
	await(t, "all containers to be ready", func() bool {
		return !strings.Contains(get(t, address, "/api/v1/pods"), `"ready":false`) &&
			strings.Count(get(t, address, "/api/v1/pods"), `"ready"`) >= 3
	})
	await(t, "a restart of flaky", func() bool {
		return strings.Contains(get(t, address, "/metrics"), `container="flaky"`) &&
			regexp.MustCompile(`"restartCount":[1-9]`).MatchString(get(t, address, "/api/v1/pods"))
	})
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if left := runs(t, filepath.Join(bin, "quickstart")); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// runs returns the processes that run a program, by their names in /proc.
func runs(t *testing.T, program string) (processes []string) {
	t.Helper()
	file, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || len(links) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	for _, link := range links {
		if exe, err := os.Stat(link); err == nil && os.SameFile(exe, file) {
			processes = append(processes, link)
		}
	}
	return processes
}

// get returns a response without the white space of its JSON.
func get(t *testing.T, address, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b, compact bytes.Buffer
	b.ReadFrom(resp.Body)
	if json.Compact(&compact, b.Bytes()) == nil {
		return compact.String()
	}
	return b.String()
}
