package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// A target on the command line has the same form as in prober.yaml.
func TestProbePluginTakesURL(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/ok?a=b" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		plugin, target, config string
		code                   int
		want                   string // in the output
	}{
		{"httpcheck", server.URL + "/ok?a=b", "{}", 0, ""},
		{"httpcheck", server.URL + "/ok?a=b", `{"url": "https://other/path", "method": "GET"}`, 0, ""},
		{"httpcheck", server.URL, `{"url": "/ok?a=b"}`, 0, ""},
		{"httpcheck", server.URL + "/other", `{"url": "/ok?a=b"}`, 2, "404"},
		{"httpcheck", "ftp://h/", "{}", 64, `the scheme of a URL must be http or https, not "ftp"`},
		{"httpcheck", "http://u:secret@h/", "{}", 64, "a URL must not have a user or a password"},
		{"dns", server.URL, `{"queryName": "a.test"}`, 64, "a URL needs a plugin with url in its config"},
	} {
		code, stdout, stderr := clitest.Run(nil, "probe", "plugin", c.plugin, "--target", c.target, "--config", c.config, "--timeout", "1m")
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout+stderr, "secret") {
			t.Errorf("%s %s %s: exit code %d, want %d\n%s%s", c.plugin, c.target, c.config, code, c.code, stdout, stderr)
		}
	}
}
