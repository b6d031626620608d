package agent_test

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/access"
)

// hash is of the password "fakepassword", at the lowest cost: with -race the usual cost takes a second.
const hash = "$2y$04$POf3klS4UVsy1l2IGtaUWerd5eIooUfSLXr6//vyORlFuptjrOltG"

const (
	webTLS   = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
	webUsers = "basic_auth_users: {ann: " + hash + "}\n"
)

// webConfig writes a web config file with a certificate beside it, and returns its path and a client that
// trusts the certificate.
func webConfig(t *testing.T, text string) (path string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	path = filepath.Join(dir, "web.yml")
	write(t, path, text)
	client = server.Client()
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	return path, client
}

func TestWebConfigTLSAndUsers(t *testing.T) {
	t.Parallel()
	config, client := webConfig(t, webTLS+webUsers)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "correct-horse-battery")
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) {
		c.Listen, c.WebConfigFile, c.TokenFile = "0.0.0.0:0", config, token
	})
	r.url = strings.Replace(r.url, "[::]", "127.0.0.1", 1)
	r.lines.await(t, 0, "pods applied")
	if !strings.HasPrefix(r.url, "https://") {
		t.Fatalf("listens at %s", r.url)
	}
	basic := func(password string) string {
		req := httptest.NewRequest("GET", "/", nil)
		req.SetBasicAuth("ann", password)
		return req.Header.Get("Authorization")
	}
	ask := func(method, path string, headers ...string) int {
		status, _ := r.send(client, method, path, headers...)
		return status
	}
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"nobody", "GET", "/metrics", nil, http.StatusUnauthorized},
		{"a wrong password", "GET", "/metrics", []string{"Authorization", basic("guess")}, http.StatusUnauthorized},
		{"the token alone", "POST", "/-/reload", []string{"Authorization", "Bearer correct-horse-battery"}, http.StatusUnauthorized},
		{"ann reads", "GET", "/metrics", []string{"Authorization", basic("fakepassword")}, http.StatusOK},
		{"ann reads by a wrong name", "GET", "/metrics", []string{"Authorization", basic("fakepassword"), "Host", "evil.com"}, http.StatusForbidden},
		{"ann acts", "POST", "/-/reload", []string{"Authorization", basic("fakepassword")}, http.StatusUnauthorized},
		{"ann acts with the token", "POST", "/-/reload", []string{"Authorization", basic("fakepassword"), "X-Prober-Token", "correct-horse-battery"}, http.StatusOK},
	} {
		if got := ask(c.method, c.path, c.headers...); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("over the socket: %d %s", status, body)
	}
	readsStream(t, r, client, basic("fakepassword"))

	write(t, config, webTLS+strings.Replace(webUsers, "ann", "bob", 1))
	if got := ask("GET", "/metrics", "Authorization", basic("fakepassword")); got != http.StatusUnauthorized {
		t.Errorf("ann, who was taken away: %d", got)
	}
	write(t, config, webTLS)
	if got := ask("GET", "/metrics"); got != http.StatusServiceUnavailable {
		t.Errorf("without users any more: %d", got)
	}
	write(t, config, "")
	if got := ask("GET", "/metrics"); got != http.StatusServiceUnavailable {
		t.Errorf("with an empty file: %d", got)
	}
	r.lines.await(t, 0, "request refused", "reason=config", "TLS and credentials are required where other hosts can connect")
}

// readsStream reads the first line of the stream.
func readsStream(t *testing.T, r *running, client *http.Client, credentials string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", credentials)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); !strings.HasPrefix(line, "event: p") || res.ProtoMajor != 2 {
		t.Errorf("%s %s: %q, %v", res.Proto, res.Status, line, err)
	}
}

func TestNewUnsafeListenIsError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, newTarget(t).external("shop"))
	users, _ := webConfig(t, webUsers)
	for _, c := range []struct{ listen, config string }{{"0.0.0.0:0", ""}, {":0", ""}, {"[::]:0", ""}, {"0.0.0.0:0", users}} {
		_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), Listen: c.listen, WebConfigFile: c.config})
		if !errors.Is(err, access.ErrExposed) {
			t.Errorf("listen on %s with the web config %q: %v", c.listen, c.config, err)
		}
	}
	for _, c := range []agent.Config{
		{AllowedHosts: []string{"http://a"}}, {TokenFile: path + "x"}, {WebConfigFile: path + "x"}, {WebConfigFile: path}, {Socket: path},
	} {
		c.Source, c.Listen = fromFiles(0, path), "127.0.0.1:0"
		if _, err := agent.New(t.Context(), c); err == nil {
			t.Errorf("an agent with %+v", c)
		}
	}
}

// A second agent of a user runs without the default socket, which is in use.
func TestSocketInUse(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "s")
	first := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Socket = socket })
	second := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Socket, c.SocketOptional = socket, true })
	second.lines.await(t, 0, "level=WARN", "the unix socket for actions is not available; --socket sets another path", "another agent is listening there")
	if status, _ := first.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("the first agent: %d", status)
	}
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, newTarget(t).external("shop"))
	_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), Listen: "127.0.0.1:0", Socket: socket})
	if !errors.Is(err, access.ErrSocketInUse) {
		t.Errorf("a socket that was asked for: %v", err)
	}
}

func TestAllowedHosts(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.AllowedHosts = []string{"*.example.com", "proxy:80"} })
	for host, want := range map[string]int{
		"prober.example.com": http.StatusOK, "proxy:80": http.StatusOK, "proxy:81": http.StatusForbidden, "example.com": http.StatusForbidden,
	} {
		if status, body := r.do("GET", "/healthz", "Host", host); status != want {
			t.Errorf("%s: %d %s, want %d", host, status, body, want)
		}
	}
}

// The terminal shows the token that New created; the log does not.
func TestShowTokenWritesToken(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.ShowToken = true })
	line, _ := r.lines.await(t, 0, "prober: "+r.url+"/#token=")
	_, token, _ := strings.Cut(strings.TrimSpace(line), "#token=")
	r.lines.await(t, 0, "pods applied")
	if status, body := r.send(http.DefaultClient, "POST", "/-/reload", "Authorization", "Bearer "+token); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, body)
	}
	if status, _ := r.send(http.DefaultClient, "POST", "/-/reload?token="+token); status != http.StatusUnauthorized {
		t.Errorf("with the token in the query: %d", status)
	}
	r.lines.mu.Lock()
	defer r.lines.mu.Unlock()
	if n := strings.Count(strings.Join(r.lines.text, ""), token); n != 1 {
		t.Errorf("the token is there %d times", n)
	}
}
