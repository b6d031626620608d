//go:build e2e

package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stats is the status of a server with queues and jobs.
const stats = `{"version":"2.10.0","queues":[{"name":"mail","depth":12},{"name":"orders","depth":120}],
	"jobs":[{"id":1,"state":"done"},{"id":2,"state":"failed"}]}`

// TestHTTPJSONAssertions probes a server with TLS that requires a token.
func TestHTTPJSONAssertions(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open sesame" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, stats)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, c := range []struct {
		name         string
		config       map[string]any
		result, text string
	}{
		{"every value", map[string]any{"jsonPath": "$.queues[*].depth", "failIf": "> 1000"}, "success", "all 2 of $.queues[*].depth are well"},
		{"one value of many", map[string]any{"jsonPath": "$..depth", "warnIf": "> 100"}, "warning", "$..depth is 120, above 100"},
		{"a filter", map[string]any{"jsonPath": "$.jobs[?@.state == 'failed'].id", "failIf": "== 2"}, "failure", "is 2, which it should not be"},
		{"several assertions", map[string]any{"assertions": []any{
			map[string]any{"name": "failed jobs", "jsonPath": "$.jobs[?@.state == 'failed']", "count": true, "warnIf": "> 0"},
			map[string]any{"field": "version", "failIf": `!~ ^3\.`},
		}}, "failure", `version is 2.10.0, which does not match ^3\.`},
		{"another name of the server", map[string]any{"field": "version", "serverName": "example.com"}, "success", "version is 2.10.0"},
		{"a name of another server", map[string]any{"field": "version", "serverName": "db.internal"}, "failure", "not db.internal"},
		{"without a token", map[string]any{"field": "version", "headers": nil}, "failure", "HTTP status 401"},
		{"another authority", map[string]any{"field": "version", "ca": newAuthority(t).pem}, "failure", "certificate"},
		{"in clear text", map[string]any{"field": "version", "tls": nil, "ca": nil}, "failure", "HTTP status 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := map[string]any{"tls": true, "ca": ca, "headers": map[string]any{"authorization": "Bearer open sesame"}}
			for name, value := range c.config {
				if config[name] = value; value == nil {
					delete(config, name)
				}
			}
			doc, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			v, code := probePlugin(t, "httpjson", address, string(doc))
			want(t, v, code, c.result, c.text)
		})
	}
}
