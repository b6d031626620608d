package plugincmd_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

func TestPromote(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/plugins/redis/promote":
			fmt.Fprint(w, `{"name":"redis","version":"2.0.0","generation":3,"probes":7}`)
		case "POST /api/v1/plugins/guarded/promote":
			if r.Header.Get("Authorization") != "Bearer 0123456789abcdef" {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"error":"no token"}`)
				return
			}
			fmt.Fprint(w, `{"name":"guarded","version":"1.0.0","generation":1,"probes":1}`)
		case "POST /api/v1/plugins/mysql/promote":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":"plugin \"mysql\": there is no other version beside it"}`)
		default:
			http.NotFound(w, r)
		}
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	dir, err := os.MkdirTemp("", "p") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	local := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	local.Start()
	defer local.Close()
	socket := "unix:" + filepath.Join(dir, "s")
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"redis", "--server", address}, 0, "plugin \"redis\" is version 2.0.0 now, generation 3, of 7 probes\n", ""},
		{[]string{"redis", "--server", server.URL + "/"}, 0, "plugin \"redis\" is version 2.0.0 now, generation 3, of 7 probes\n", ""},
		{[]string{"redis", "--server", socket}, 0, "plugin \"redis\" is version 2.0.0 now, generation 3, of 7 probes\n", ""},
		{[]string{"guarded", "--server", address, "--token-file", token}, 0, "plugin \"guarded\" is version 1.0.0 now, generation 1, of 1 probes\n", ""},
		{[]string{"guarded", "--server", address}, 1, "", "prober: error: " + address + ": no token\nprober: hint: set --token-file to the file with the agent's token,"},
		{[]string{"guarded", "--server", address, "--token-file", token + "s"}, 64, "", "prober: error: --token-file: token file: open " + token + "s: no such file"},
		{[]string{"redis", "--server", socket + "s"}, 3, "", "prober: error: dial unix " + dir + "/ss: connect: no such file or directory\nprober: hint: set --server to the address of the agent"},
		{[]string{"mysql", "--server", socket}, 1, "", "prober: error: " + socket + ": plugin \"mysql\": there is no other version beside it\n"},
		{[]string{"mysql", "--server", address}, 1, "", "prober: error: " + address + ": plugin \"mysql\": there is no other version beside it\n"},
		{[]string{"a/b", "--server", address}, 1, "", "prober: error: " + address + ": 404 Not Found\n"},
		{[]string{"redis", "--server", "http://"}, 64, "", "prober: error: --server http://: must be unix:PATH, HOST:PORT, or a URL\n"},
		{nil, 64, "", "prober: error: prober plugin promote: want NAME, got 0 arguments\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := cli.Main(command.Env{
			Args: append([]string{"plugin", "promote"}, c.args...), Stdout: &stdout, Stderr: &stderr,
			LookupEnv: func(string) (string, bool) { return "", false },
			Notify:    func(...os.Signal) (<-chan os.Signal, func()) { return nil, func() {} },
		})
		if code != c.code || stdout.String() != c.stdout || !strings.HasPrefix(stderr.String(), c.stderr) {
			t.Errorf("%q: %d, %q, %q", c.args, code, &stdout, &stderr)
		}
	}
}
