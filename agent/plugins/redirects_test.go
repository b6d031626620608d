package plugins_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/plugin"
)

// TestRedirectsAreGranted checks that httpcheck gets grants for redirects only if the config asks for them
// and prober.yaml has no grants for it.
func TestRedirectsAreGranted(t *testing.T) {
	own := filepath.Join(t.TempDir(), "prober.yaml")
	text := "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins:\n- name: httpcheck\n  grants: [\"https://shop.example:443\"]\n"
	if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  plugins.Config
		want []string
	}{
		"asked for":              {plugins.Config{Redirects: true}, []string{"http://*:*", "https://*:*"}},
		"not asked for":          {plugins.Config{}, nil},
		"prober.yaml has others": {plugins.Config{Redirects: true, ConfigFile: own}, []string{"https://shop.example:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := plugins.NewScanner(&c.cfg, nil, nil).ScanFor(func(string) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{"httpcheck", "expect"} {
				want, err := plugin.ParseGrants(c.want)
				if err != nil {
					t.Fatal(err)
				}
				if other != "httpcheck" {
					want = nil
				}
				if got := v.Plugin(other).Plugin.Grants; len(got) != len(want) || len(got) > 0 && got[0].String() != want[0].String() {
					t.Errorf("%s: grants %v, want %v", other, got, want)
				}
			}
		})
	}
}
