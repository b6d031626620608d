package outbound_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/internal/outbound"
)

// get sends a request and returns the body of the response.
func get(t *testing.T, c *outbound.Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(text)), err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRedirects(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/end":
			fmt.Fprint(w, "end ", r.Header.Get("Authorization"))
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			w.Header().Set("Location", r.FormValue("to"))
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer server.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect to another host was followed") }))
	defer other.Close()
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "t0ken\n")
	for _, c := range []struct {
		redirects int
		target    string
		want      string
	}{
		{0, "/end", "302 "},
		{1, "/end", "200 end Bearer t0ken"},
		{1, other.URL, fmt.Sprintf("it redirects to another host, %q, which is not followed", other.URL)},
		{2, "/loop", "more than 2 redirects"},
	} {
		got, err := get(t, outbound.New(outbound.Config{Redirects: c.redirects, BearerTokenFile: token}), server.URL+"/?to="+c.target)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d redirects to %s: got %q, want %q", c.redirects, c.target, got, c.want)
		}
	}
}

func TestFilesAreReadForEachRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) }))
	defer server.Close()
	ca, token := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "token")
	c := outbound.New(outbound.Config{TLS: &outbound.TLS{CA: ca}, BearerTokenFile: token, KeepAlive: true, Timeout: time.Minute})
	defer c.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, step := range []struct{ ca, token, want string }{
		{"", "", "ca: " + ca + " has no certificate in PEM"},
		{authority, "", "200 Bearer"},
		{authority, "a", "200 Bearer a"},
		{authority, " b\n", "200 Bearer b"},
		{"x", "b", "ca: " + ca + " has no certificate in PEM"},
		{authority, "b", "200 Bearer b"},
	} {
		write(t, ca, step.ca)
		write(t, token, step.token)
		got, err := get(t, c, server.URL)
		if err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, c, server.URL)
	if e, ok := errors.AsType[*outbound.FileError](err); !ok || e.Field != "bearerTokenFile" {
		t.Errorf("got %v without the token", err)
	}
}

func TestTimeoutIncludesBody(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "beginning")
		_ = http.NewResponseController(w).Flush()
		<-stop
	}))
	defer server.Close()
	defer close(stop)
	got, err := get(t, outbound.New(outbound.Config{Timeout: 50 * time.Millisecond}), server.URL)
	if got != "200 beginning" || err == nil || err.Error() != "no answer within 50ms" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = get(t, outbound.New(outbound.Config{Timeout: time.Minute, MaxBody: 3}), server.URL)
	if got != "200 beg" || err != nil {
		t.Errorf("got %q, %v with a limit", got, err)
	}
}

func TestErrorsHaveNoURL(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	if _, err := get(t, outbound.New(outbound.Config{}), server.URL+"/?key=secret"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "3600": time.Minute, "99999999999999999999": 0,
			time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat): 9 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):      0,
		} {
			if got := outbound.RetryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}}, time.Minute); got != want {
				t.Errorf("%q: got %v, want %v", text, got, want)
			}
		}
	})
}

func TestUnusableKeyPair(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cert.pem"), "x")
	settings := outbound.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "cert.pem")}
	if _, err := settings.Config(); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
		t.Errorf("got %v", err)
	}
	settings.Key = filepath.Join(dir, "gone.pem")
	_, err := settings.Config()
	if e, ok := errors.AsType[*outbound.FileError](err); !ok || e.Field != "key" {
		t.Errorf("got %v without the key", err)
	}
}
