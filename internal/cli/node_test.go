package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// everyNameIsLoopback makes 127.0.0.1 the address of every name until the test ends.
func everyNameIsLoopback(t *testing.T) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
				continue
			}
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true}, Questions: query.Questions}
			if q := query.Questions[0]; q.Type == dnsmessage.TypeA {
				answer.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			if msg, err := answer.Pack(); err == nil {
				_, _ = server.WriteTo(msg, from)
			}
		}
	})
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialer := net.Dialer{Resolver: before} // a Dialer without one reads DefaultResolver, also after the test
		return dialer.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
		serving.Wait()
	})
}

// TestNodeRefusesAddressesOfTheNode runs the command beside an API server with a pod whose probes name a host
// that the operator allows, and that has a loopback address. No probe may reach it.
func TestNodeRefusesAddressesOfTheNode(t *testing.T) {
	everyNameIsLoopback(t)
	signals := make(chan os.Signal, 1)
	stop := func() {
		select {
		case signals <- os.Interrupt:
		default:
		}
	}
	private, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for conn, err := private.Accept(); err == nil; conn, err = private.Accept() {
			t.Error("a probe has reached the node itself")
			conn.Close()
			stop()
		}
	})
	defer accepting.Wait()
	defer private.Close()
	port := private.Addr().(*net.TCPAddr).Port
	annotation, err := json.Marshal(fmt.Sprintf(`{
		a: {readiness: {httpGet: {host: shop.test, port: %[1]d}, period: 100ms, timeout: 1m, failureThreshold: 1}},
		b: {readiness: {tcpSocket: {host: shop.test, port: %[1]d}, period: 100ms, timeout: 1m, failureThreshold: 1}},
		c: {readiness: {plugin: {name: grpc, target: {host: shop.test, port: %[1]d}, config: {port: %[1]d}}, period: 100ms, timeout: 1s, failureThreshold: 1}}}`, port))
	if err != nil {
		t.Fatal(err)
	}
	var containers, statuses []string
	for _, name := range []string{"a", "b", "c"} {
		containers = append(containers, fmt.Sprintf(`{"name":%q}`, name))
		statuses = append(statuses, fmt.Sprintf(`{"name":%[1]q,"containerID":"x://%[1]s","started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}`, name))
	}
	pod := fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"u","resourceVersion":"1","annotations":{"prober.dev/probes":%s}},"spec":{"nodeName":"one","containers":[%s]},
		"status":{"phase":"Running","podIP":"10.1.0.8","podIPs":[{"ip":"10.1.0.8"}],"containerStatuses":[%s]}}`, annotation, strings.Join(containers, ","), strings.Join(statuses, ","))

	var mu sync.Mutex
	refused := make(map[string]bool) // containers
	texts := map[string]string{      // of the first failures
		"a": "127.0.0.1 would be the node itself", "b": "127.0.0.1 would be the node itself",
		"c": "failed to connect service", // the kubelet's message for every cause
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("watch") == "":
			answer(w, http.StatusOK, `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"1"},"items":[`+pod+`]}`)
		case q.Get("sendInitialEvents") != "":
			answer(w, http.StatusUnprocessableEntity, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	mux.HandleFunc("PATCH /api/v1/namespaces/shop/pods/web/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, pod) })
	mux.HandleFunc("POST /api/v1/namespaces/shop/events", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		for name, want := range texts {
			if strings.Contains(string(text), "spec.containers{"+name+"}") && strings.Contains(string(text), want) {
				refused[name] = true
			}
		}
		if len(refused) == len(texts) {
			stop()
		}
		answer(w, http.StatusCreated, string(text))
	})
	server := httptest.NewServer(mux)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer server.Close()
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"kubeconfig": fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`, server.URL),
		"prober.yaml": "apiVersion: prober.dev/v1\nkind: AgentConfig\nkubernetes: {targets: [shop.test]}\n",
	})
	code, _, stderr := clitest.Run(signals, "node", "--node-name", "one", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--config", filepath.Join(dir, "prober.yaml"), "--listen", "127.0.0.1:0", "--socket", filepath.Join(dir, "s"))
	if code != 0 || !strings.HasSuffix(stderr, "prober: stopped by SIGINT\n") {
		t.Errorf("exit code %d, stderr\n%s", code, stderr)
	}
}
