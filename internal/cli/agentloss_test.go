package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// TestAgentLossMakesPodsUnready runs the command beside an API server with a lease that nobody renews.
func TestAgentLossMakesPodsUnready(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/here/leases"
	const lease = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"prober-one"},"spec":{"holderIdentity":"one","leaseDurationSeconds":1,"renewTime":"2026-01-01T00:00:00.000000Z"}}`
	const pod = `{"metadata":{"namespace":"shop","name":"web","uid":"u","annotations":{"prober.dev/on-agent-loss":"unready"}},
		"spec":{"nodeName":"one","readinessGates":[{"conditionType":"prober.dev/ready"}]},"status":{"conditions":[{"type":"prober.dev/ready","status":"True"}]}}`
	signals := make(chan os.Signal, 1)
	var patched sync.Once
	var body, agent string
	mux := http.NewServeMux()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
	}
	mux.HandleFunc("GET "+leases, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != "app.kubernetes.io/name=prober" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		answer(`{"apiVersion":"coordination.k8s.io/v1","kind":"LeaseList","metadata":{"resourceVersion":"1"},"items":[`+lease+`]}`)(w, r)
	})
	mux.HandleFunc("GET "+leases+"/prober-one", answer(lease))
	mux.HandleFunc("GET /api/v1/pods", answer(`{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[`+pod+`]}`))
	mux.HandleFunc("PATCH /api/v1/namespaces/shop/pods/web/status", func(w http.ResponseWriter, r *http.Request) {
		patched.Do(func() {
			text := new(strings.Builder)
			_ = r.Write(text)
			body, agent = text.String(), r.UserAgent()
			signals <- os.Interrupt
		})
		answer(`{"apiVersion":"v1","kind":"Pod","metadata":{}}`)(w, r)
	})
	server := httptest.NewServer(mux)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clitest.WriteTree(t, filepath.Dir(kubeconfig), map[string]string{"kubeconfig": fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","namespace":"here"}}],"current-context":"x"}`, server.URL)})

	code, stdout, stderr := clitest.Run(signals, "agent-loss", "--kubeconfig", kubeconfig)
	if code != 0 || stdout != "" || !strings.HasSuffix(stderr, "prober: stopped by SIGINT\n") || !strings.Contains(stderr, "the agent of a node is lost") {
		t.Errorf("exit code %d, stdout %q, stderr\n%s", code, stdout, stderr)
	}
	if !strings.Contains(body, `"uid":"u"`) || !strings.Contains(body, `"reason":"AgentLost"`) || agent != "prober-agent-loss/dev" {
		t.Errorf("agent %s, request\n%s", agent, body)
	}
}
