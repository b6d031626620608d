package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A signal ends the request over both versions of HTTP, and is the error.
func TestPromoteStopsOnSignal(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, head := range map[string]string{"no answer": "", "half an answer": `{"name":`} {
			t.Run(version+" "+name, func(t *testing.T) {
				asked := make(chan string, 1)
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if head != "" {
						fmt.Fprint(w, head)
						_ = http.NewResponseController(w).Flush()
					}
					asked <- r.Proto
					<-r.Context().Done()
					panic(http.ErrAbortHandler) // there is no other half
				}))
				server.EnableHTTP2 = version == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()
				got := interruptedPromotion(t, server, asked)
				if want := version + ": prober: error: stopped by SIGINT\n: exit status 1"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// interruptedPromotion starts a promotion, interrupts it when the server has the request, and returns
// the version of HTTP, stderr and the exit.
func interruptedPromotion(t *testing.T, server *httptest.Server, asked <-chan string) string {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "prober", "plugin", "promote", "redis", "--server", server.URL)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+ca)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := "nothing"
	select {
	case over = <-asked:
	case <-time.After(patience):
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	return fmt.Sprintf("%s: %s: %v", over, &stderr, err)
}
