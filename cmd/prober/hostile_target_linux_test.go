package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// hostileBytes are responses of a target that could harm a terminal, a page, a log or an API.
const hostileBytes = "</script><img src=x onerror=alert(1)>\x1b]0;title\x07\x1b[2J\x1b[31m\"}\r\x00\xff\xfe\u202e\u2028level=ERROR msg=forged\n"

// serveHostile answers each connection with head, and then with rest again and again up to n bytes.
func serveHostile(t *testing.T, head, rest string, n int) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				if _, err := io.WriteString(conn, head); err == nil {
					_ = flood(conn, rest, n)
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestHostileTargetsAreShownHarmlessly(t *testing.T) {
	t.Parallel()
	const gigabyte = 1 << 30
	var pod strings.Builder
	pod.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n")
	targets := map[string]int{
		"body":    serveHostile(t, "HTTP/1.1 200 OK\r\n\r\n"+hostileBytes, hostileBytes, gigabyte),
		"failure": serveHostile(t, "HTTP/1.1 500 "+strings.ReplaceAll(hostileBytes, "\n", "")+"\r\nConnection: close\r\n\r\n", hostileBytes, 1<<20),
		"headers": serveHostile(t, "HTTP/1.1 200 OK\r\n", "X: "+strings.ReplaceAll(hostileBytes, "\n", "")+"\r\n", gigabyte),
		"garbage": serveHostile(t, hostileBytes, hostileBytes, gigabyte),
	}
	for name, port := range targets {
		fmt.Fprintf(&pod, "  - name: %s\n    command: [sleep, \"600\"]\n    livenessProbe: {httpGet: {host: 127.0.0.1, port: %d}, periodSeconds: 1, failureThreshold: 1000}\n", name, port)
	}
	r := &clientRig{agent: runAgent(t, pod.String(), t.TempDir())}
	r.agent.await(t, "a tick of each", func(s *state) string {
		for name := range targets {
			if s.probes[name+"/liveness"].Last == nil {
				return "no tick of " + name
			}
		}
		return ""
	})
	for _, args := range []string{"get probes -o wide", "get probes -o name", "get pods -o wide", "get events", "describe shop", "explain shop", "status"} {
		_, stdout, stderr := r.run(t, strings.Fields(args)...)
		if text := stdout + stderr; text == "" || hasControls(text) {
			t.Errorf("%s: %q", args, text)
		}
	}
	for _, path := range []string{"/api/v1/probes", "/api/v1/pods", "/api/v1/events", "/api/v1/probes/default/shop/body/liveness"} {
		res, err := http.Get(r.agent.url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var value any
		if err != nil || json.Unmarshal(text, &value) != nil || strings.ContainsFunc(string(text), isControl) || strings.ContainsAny(string(text), "<>") {
			t.Errorf("%s: %v, %.2000q", path, err, text)
		}
		if got := res.Header.Get("X-Content-Type-Options") + " " + res.Header.Get("Content-Type"); got != "nosniff application/json" {
			t.Errorf("%s: %s", path, got)
		}
	}
	if peak := r.agent.peak(t); peak > maxHostile {
		t.Errorf("the agent took %d MiB, want at most %d", peak>>20, maxHostile>>20)
	}
	for line := range strings.Lines(r.agent.stop(t)) {
		if hasControls(line) || strings.HasPrefix(line, "level=ERROR msg=forged") {
			t.Errorf("a line of the log: %q", line)
		}
	}
}

func isControl(r rune) bool { return r != '\n' && unicode.IsControl(r) }

// hasControls reports whether text has characters that change a terminal, or is not UTF-8.
func hasControls(text string) bool {
	return !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return isControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}
