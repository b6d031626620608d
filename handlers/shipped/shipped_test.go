package shipped_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// maxModule is the maximum size of a module in bytes, because every binary contains all modules.
const maxModule = 1 << 20

// cache keeps the compiled modules for all tests: compiling one takes a second.
var cache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "prober-shipped-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cache = filepath.Join(dir, "cache")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestPlugins(t *testing.T) {
	found, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		name := f.Manifest.Name
		t.Run(name, func(t *testing.T) {
			manifest, err := os.ReadFile(filepath.Join(name, plugin.ManifestFile))
			if err != nil {
				t.Fatal(err)
			}
			inside, err := plugin.Extract(f.Module)
			if err != nil || !bytes.Equal(inside, manifest) {
				t.Errorf("the manifest inside the module is not plugin.yaml: run handlers/shipped/build (%v)", err)
			}
			if len(f.Module) > maxModule {
				t.Errorf("the module has %d bytes, more than %d", len(f.Module), maxModule)
			}
			runCases(t, name)
		})
	}
}

// TestSecretsOfConfigs checks which values are marked as secret. They are removed from all texts, so a common
// word or a host must not be marked.
func TestSecretsOfConfigs(t *testing.T) {
	found, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	for name, configs := range map[string]map[string][]string{
		"httpcheck": {
			`{"headers": {"Authorization": "Bearer a", "cookie": "b", "X-API-Key": "c", "PRIVATE-TOKEN": "d"}}`:                                                  {"Bearer a", "d", "c", "b"},
			`{"headers": {"Host": "shop.example", "Accept": "text/html", "X-Env": "shop", "X-Author": "ann", "X-Token-Version": "1"}}`:                           nil,
			`{"headers": {"X-Session-Id": "Bearer a", "X-Hub-Signature-256": "b", "Set-Cookie": "c", "x_auth_user": "d"}}`:                                       {"c", "b", "Bearer a", "d"},
			`{"proxyConnectHeader": {"Proxy-Authorization": "Basic a", "User-Agent": "b"}}`:                                                                      {"Basic a"},
			`{"basicAuth": {"username": "shop", "password": "a"}, "bearerToken": "b", "authorization": {"credentials": "c"}}`:                                    {"c", "a", "b"},
			`{"url": "https://shop.example/x", "credentials": "shop", "tlsConfig": {"serverName": "shop.example"}}`:                                              nil,
			`{"oauth2": {"tokenUrl": "https://login.example/", "clientId": "shop", "clientSecret": "a", "parameters": {"audience": "b", "client_secret": "c"}}}`: {"a", "c"},
		},
		"journey": {
			`{"steps": [{"basicAuth": {"username": "shop", "password": "a"}}, {"bearerToken": "b", "form": {"user": "shop", "password": "c"}, "headers": {"Cookie": "d"}, "body": "e"}]}`: {"d", "c", "a", "b"},
		},
		"websocket": {
			`{"headers": {"Cookie": "a", "Origin": "b"}, "bearerToken": "c", "exchange": [{"send": "d"}]}`: {"a", "c"},
		},
	} {
		i := slices.IndexFunc(found, func(f plugin.Found) bool { return f.Manifest.Name == name })
		for config, want := range configs {
			got := found[i].Manifest.Config.SecretsOf([]byte(config))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s: got %q, want %q", name, config, got, want)
			}
		}
	}
}

// runCases runs the test cases of a plugin.
func runCases(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(name, name+plugintest.Suffix)
	cases, err := plugintest.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := plugintest.Run(t.Context(), cases, plugintest.Config{CacheDir: cache, Patience: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(report.Results, func(r plugintest.Result) bool { return !r.OK() }) {
		var text strings.Builder
		if err := plugintest.Write(&text, "table", []*plugintest.Report{report}); err != nil {
			t.Fatal(err)
		}
		t.Error(text.String())
	}
}
