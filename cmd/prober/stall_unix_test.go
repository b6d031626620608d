//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestStoppedAgentReportsHostStall stops an agent during its attempts. The time-outs count as errors
// of the host, not as failures of the target.
func TestStoppedAgentReportsHostStall(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	a := runAgent(t, `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web: {readiness: {httpGet: {path: /, port: `+strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)+`}, period: 10ms, timeout: 600ms, failureThreshold: 1}}
spec:
  containers:
  - name: web
`, t.TempDir())
	var stopping sync.WaitGroup
	stopping.Go(func() { // stop the agent during each of three attempts; it retries since each is an error
		for {
			asked, err := listener.Accept()
			if err != nil {
				return
			}
			_ = a.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(900 * time.Millisecond)
			_ = a.cmd.Process.Signal(syscall.SIGCONT)
			defer asked.Close() // without an answer
		}
	})
	a.await(t, "an error", func(s *state) string {
		if p := s.probes["web/readiness"]; p.Last == nil || p.Last.Error == "" {
			return "no error"
		}
		return ""
	})
	_ = listener.Close()
	stopping.Wait()
	var events v1.EventList
	fetch(t, a.url+"/api/v1/events", &events)
	found := false
	for _, e := range events.Items {
		found = found || e.Reason == "HostStall" && e.InvolvedObject.Kind == "Node" && e.Count > 0
	}
	if !found {
		t.Errorf("no event about the host in %+v", events.Items)
	}
	for path, want := range map[string]string{
		"/readyz?verbose": "\n[!]host stalled: ",
		"/metrics":        `prober_attempt_errors_total{handler="http",reason="host_stall"}`,
	} {
		if text := page(t, a.url+path); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", path, want, text)
		}
	}
	if text := a.stop(t); !strings.Contains(text, "trouble of this host") {
		t.Errorf("no line in\n%s", text)
	}
}

// page returns the body of a URL.
func page(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
