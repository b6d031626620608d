package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// TestMistakesInProberYAML has what people write who come from other tools.
func TestMistakesInProberYAML(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct{ wrong, right, want string }{
		{"interval: 15s", "period: 15s", `prober.yaml:7: targets[0].probe.interval: unknown field (did you mean "period"?)`},
		{"Period: 15s", "period: 15s", `prober.yaml:7: targets[0].probe.Period: unknown field (did you mean "period"?)`},
		{"period: 15", "period: 15s", "prober.yaml:7: targets[0].probe.period: must be a duration such as 50ms, 1s or 1m30s"},
		{"\tperiod: 15s", "    period: 15s", "prober.yaml:7: found character that cannot start any token, such as a tab: indent with spaces"},
		{"fail: 10d", "fail: 240h", `prober.yaml:7: targets[0].probe: handler "httpcheck": config.certificateAge.fail: must be a duration such as 900ms or 720h, without days`},
		{"{name: httpchek}", "{name: httpcheck}", `prober.yaml:3: plugins[0]: plugin "httpchek" is in none of the plugin folders (did you mean "httpcheck"?)`},
	} {
		path := filepath.Join(t.TempDir(), "prober.yaml")
		text := strings.Replace(`apiVersion: prober.dev/v1
kind: AgentConfig
plugins: [{name: httpcheck}]
targets:
- name: shop
  probe:
    period: 15s
    plugin: {name: httpcheck, config: {url: /, certificateAge: {fail: 240h}}}
  static: ["https://shop.example/"]
`, c.right, c.wrong, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := clitest.Run(nil, "validate", path)
		if got := strings.TrimSpace(strings.ReplaceAll(stdout, filepath.Dir(path)+"/", "")); code != 1 || got != c.want {
			t.Errorf("%s: exit code %d, %s%s\nwant %s", c.wrong, code, got, stderr, c.want)
		}
	}
}
