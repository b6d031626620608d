package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestPromote(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/plugins/redis/promote":
			fmt.Fprint(w, `{"name":"redis","version":"2.0.0","generation":3,"probes":7}`)
		case "POST /api/v1/plugins/mysql/promote":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":"plugin \"mysql\": there is no other version beside it"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"redis", "--server", address}, 0, "plugin \"redis\" is version 2.0.0 now, generation 3, of 7 probes\n", ""},
		{[]string{"redis", "--server", server.URL + "/"}, 0, "plugin \"redis\" is version 2.0.0 now, generation 3, of 7 probes\n", ""},
		{[]string{"mysql", "--server", address}, 1, "", "prober: error: " + address + ": plugin \"mysql\": there is no other version beside it\n"},
		{[]string{"a/b", "--server", address}, 1, "", "prober: error: " + address + ": 404 Not Found\n"},
		{[]string{"redis", "--server", "http://"}, 64, "", "prober: error: --server http://: want HOST:PORT, or a URL\n"},
		{nil, 64, "", "prober: error: prober plugin promote: want NAME, got 0 arguments\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(Env{
			Args: append([]string{"plugin", "promote"}, c.args...), Stdout: &stdout, Stderr: &stderr,
			LookupEnv: func(string) (string, bool) { return "", false },
			Notify:    func(...os.Signal) (<-chan os.Signal, func()) { return nil, func() {} },
		})
		if code != c.code || stdout.String() != c.stdout || !strings.HasPrefix(stderr.String(), c.stderr) {
			t.Errorf("%q: %d, %q, %q", c.args, code, &stdout, &stderr)
		}
	}
}
