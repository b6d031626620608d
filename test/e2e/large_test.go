//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAssemblyScriptLargeAnswers runs a guest with the default limits that reads answers of 64 KB. With
// --runtime stub, memory is never freed, so the SDK must not use memory that grows quadratically with their
// size.
func TestAssemblyScriptLargeAnswers(t *testing.T) {
	t.Parallel()
	plugins := guest(t, "large", everything[2].ext, everything[2].build)
	const size = 64 << 10
	const unit = "a \"quoted\" \\ line\n\t\u00e9\u4e2d\x01" // with characters of two bytes and of three
	text := strings.Repeat(unit, size/len(unit))
	var list []map[string]any
	for i := range size / 64 {
		list = append(list, map[string]any{"name": fmt.Sprintf(`record "%d"`, i), "ttl": i, "data": "192.0.2.1 []{}"})
	}
	records, err := json.Marshal(map[string]any{"rcode": "NOERROR", "records": list})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			_, _ = w.Write([]byte(text))
		case "/records":
			_, _ = w.Write(records)
		}
	}))
	defer server.Close()
	web := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct{ do, target, text string }{
		{"text", web, fmt.Sprintf("%d characters", len([]rune(text)))},
		{"records", web, fmt.Sprintf("%d records", len(list))},
		{"lines", saying(t, strings.Repeat("a\r\n", size/3)+"rest"), fmt.Sprintf("%d lines of %d bytes, and rest", size/3, size/3)},
		{"lines", saying(t, strings.Repeat(strings.Repeat("l", 8000)+"\n", 8)), "8 lines of 64000 bytes, and "},
	} {
		t.Run(c.do, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, "large", c.target, fmt.Sprintf(`{"do":%q}`, c.do), "--grant", "dns", "--grant", "kv")
			want(t, v, code, "success", c.text)
		})
	}
}
