package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// TestControllerProgramsNode runs the command beside an API server with a policy and a pod.
func TestControllerProgramsNode(t *testing.T) {
	const group = "/apis/prober.dev/v1alpha1"
	const leases = "/apis/coordination.k8s.io/v1/namespaces/here/leases"
	signals := make(chan os.Signal, 1)
	var mu sync.Mutex
	bodies := make(map[string]string)
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
	list := func(path, kind, item string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			switch query := r.URL.Query(); {
			case query.Has("sendInitialEvents"): // an older API server
				reply(w, http.StatusUnprocessableEntity, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
			case query.Has("watch"):
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			default:
				reply(w, http.StatusOK, fmt.Sprintf(`{%s,"metadata":{"resourceVersion":"1"},"items":[%s]}`, kind, item))
			}
		})
	}
	list("/api/v1/pods", `"apiVersion":"v1","kind":"PodList"`, `{"metadata":{"namespace":"shop","name":"web","labels":{"app":"web"}},"spec":{"nodeName":"one"}}`)
	list(group+"/nodeprobes", `"apiVersion":"prober.dev/v1alpha1","kind":"NodeProbesList"`, "")
	list(group+"/probepolicies", `"apiVersion":"prober.dev/v1alpha1","kind":"ProbePolicyList"`,
		`{"metadata":{"namespace":"shop","name":"web","uid":"u","generation":3},"spec":{"selector":{"matchLabels":{"app":"web"}},"probes":[{"name":"a","container":"app","kind":"Readiness","tcpSocket":{"port":80}}]}}`)
	mux.HandleFunc("GET "+leases+"/prober-controller", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
	})
	for _, pattern := range []string{"POST " + leases, "POST " + group + "/nodeprobes", "PATCH " + group + "/namespaces/shop/probepolicies/web/status"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if bodies[pattern] = r.UserAgent() + " " + string(body); len(bodies) == 3 {
				select {
				case signals <- os.Interrupt:
				default:
				}
			}
			reply(w, http.StatusOK, string(body))
		})
	}
	server := httptest.NewServer(mux)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clitest.WriteTree(t, filepath.Dir(kubeconfig), map[string]string{"kubeconfig": fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","namespace":"here"}}],"current-context":"x"}`, server.URL)})

	code, stdout, stderr := clitest.Run(signals, "controller", "--kubeconfig", kubeconfig)
	if code != 0 || stdout != "" || !strings.HasSuffix(stderr, "prober: stopped by SIGINT\n") || !strings.Contains(stderr, "this process holds the lease, and writes") {
		t.Errorf("exit code %d, stdout %q, stderr\n%s", code, stdout, stderr)
	}
	for pattern, want := range map[string]string{
		"POST " + leases:                `"holderIdentity":`,
		"POST " + group + "/nodeprobes": `"metadata":{"name":"one"},"spec":{"policies":[{"namespace":"shop","name":"web","uid":"u","generation":3,`,
		"PATCH " + group + "/namespaces/shop/probepolicies/web/status": `{"metadata":{"uid":"u"},"status":{"observedGeneration":3,"pods":{"matched":1,"gated":0,`,
	} {
		if got := bodies[pattern]; !strings.HasPrefix(got, "prober-controller/dev ") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", pattern, got)
		}
	}
}
