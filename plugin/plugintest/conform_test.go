package plugintest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// TestConformance runs each check with guests that pass it and guests that fail it.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, check, do string
		edit            func(string) string
		want            string // in the failures; "" for none
	}{
		{"guest takes any config", "bad config", "fine", nil, ""},
		{"guest obeys the deadline", "black hole", "talk", nil, ""},
		{"guest obeys the deadline over HTTP", "black hole", "http", nil, ""},
		{"guest traps", "black hole", "panic", nil, "timeout: error(trap)"},
		{"guest answers alike in every isolation", "agree", "talk", nil, ""},
		{"manifest requests the target", "manifest", "talk", nil, ""},
		{"manifest does not request a dialled address", "manifest", "elsewhere", nil, "x: its manifest does not request: dial tcp 10.0.0.9:80"},
		{"manifest requests a dialled address", "manifest", "elsewhere", requestsMore, ""},
		{"guest memory does not grow", "growth", "talk", nil, ""},
	} {
		if race && c.check != "black hole" {
			continue // hundreds of calls take minutes under the race detector
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := load(t, "\n- {name: x, request: {target: {host: web.internal, port: 80}, config: {do: "+c.do+", request: '{\"url\":\"http:///\"}'}}, want: {result: success}}\n")
			cfg := plugintest.Config{Run: regexp.MustCompile("conformance: .*" + c.check), Patience: time.Millisecond}
			if c.edit != nil {
				cfg.Plugin = variantOf(t, c.edit)
			}
			report := run(t, f, cfg)
			if len(report.Results) != 1 {
				t.Fatalf("%d results", len(report.Results))
			}
			r := report.Results[0]
			if all := strings.Join(r.Failures, "\n"); r.OK() != (c.want == "") || !strings.Contains(all, c.want) {
				t.Errorf("%s: got %q, want %q", r.Name, r.Failures, c.want)
			}
			if c.check == "growth" && r.Note != "only 200 calls, in 1ms" {
				t.Errorf("noted %q", r.Note)
			}
		})
	}
}

func TestConformanceUnixSocketNeedsRequest(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, request: {config: {do: dial, network: unix, addr: /run/x.sock}}, host: {net: [{dial: 'unix:///run/x.sock'}]}, want: {result: success}}\n")
	for addr, edit := range map[string]func(string) string{
		"dial unix /run/x.sock": func(m string) string { return m },
		"":                      requestsMore,
	} {
		report := run(t, f, plugintest.Config{Run: regexp.MustCompile("conformance: .*manifest"), Plugin: variantOf(t, edit)})
		if got := strings.Join(report.Results[0].Failures, "\n"); (got == "") != (addr == "") || !strings.Contains(got, addr) {
			t.Errorf("got %q, want %q in it", got, addr)
		}
	}
}

// counting is a module whose memory grows from 4 pages by one page per call. It fails if its memory
// had grown before the call: (memory.grow 1), then memory.size > 5 ? 2 : 0.
const counting = "\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x05\x03\x01\x00\x04" +
	"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00\x0a\x11\x01\x0f\x00\x41\x01\x40\x00\x1a\x3f\x00\x41\x05\x4a\x41\x01\x74\x0b"

// TestConformanceResetRestoresMemorySize checks that a reset also restores the size of the memory,
// which a guest can see.
func TestConformanceResetRestoresMemorySize(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, want: {result: success}}\n")
	for _, r := range run(t, f, plugintest.Config{Plugin: written(t, counting), Run: regexp.MustCompile("agree")}).Results {
		if !r.OK() {
			t.Errorf("%s: %q", r.Name, r.Failures)
		}
	}
}

// requestsMore returns the manifest with requests for all addresses that guests dial in these tests.
func requestsMore(m string) string {
	return strings.Replace(m, "- capability: net\n  allow: [target]", "- capability: net\n  allow: [target, 'tcp://10.0.0.9:80', 'unix:///run/x.sock']", 1)
}

// written writes a module and returns its path. Its manifest has the lines more, and a config with a
// string a.
func written(t *testing.T, module string, more ...string) string {
	t.Helper()
	built, err := plugin.Embed([]byte(module), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: small\nversion: 1.0.0\n"+
		"config: {schema: {properties: {a: {type: string}}}}\n"+strings.Join(more, "")))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.wasm")
	if err := os.WriteFile(path, built, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Modules with a single function probe: spinning loops for ever, trapping executes unreachable, and
// silent returns -1 without a message.
const (
	spinning = smallHead + "\x0a\x0b\x01\x09\x00\x03\x40\x0c\x00\x0b\x41\x00\x0b"
	silent   = smallHead + "\x0a\x06\x01\x04\x00\x41\x7f\x0b"
	trapping = smallHead + "\x0a\x05\x01\x03\x00\x00\x0b"

	smallHead = "\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00"
)

// TestConformanceSpinningGuestFailsEachCheckOnce checks that each check stops after one call.
func TestConformanceSpinningGuestFailsEachCheckOnce(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, want: {result: success}}\n")
	const said = "the guest ran for 200ms of real time without an end"
	for check, want := range map[string]string{
		"bad config": "config {}: " + said,
		"black hole": "timeout: " + said + "\nhalf-open: " + said,
		"growth":     "call 1: " + said,
	} {
		cfg := plugintest.Config{Plugin: written(t, spinning), Run: regexp.MustCompile("conformance: .*" + check), Stuck: 200 * time.Millisecond}
		if got := strings.Join(run(t, f, cfg).Results[0].Failures, "\n"); got != want {
			t.Errorf("%s: got %q, want %q", check, got, want)
		}
	}
}

func TestRunInvalidModuleNamesFile(t *testing.T) {
	t.Parallel()
	path := written(t, strings.Replace(trapping, "\x05probe", "\x05prove", 1))
	_, err := plugintest.Run(t.Context(), load(t, "\n- {name: x, want: {result: success}}\n"), plugintest.Config{Plugin: path, CacheDir: cache})
	if want := "plugin \"small\": the module exports no function \"probe\": export it, or build a program, which exports \"_start\" (" + path + ")"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestConformanceShortensConfig(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, want: {result: success}}\n")
	failures := run(t, f, plugintest.Config{Plugin: written(t, trapping), Run: regexp.MustCompile("bad config")}).Results[0].Failures
	want := `config {"a":"` + strings.Repeat("x", 74) + `… (10008 bytes): plugin "small": wasm error: unreachable`
	if !slices.Contains(failures, want) {
		t.Errorf("no %q in %q", want, failures)
	}
}

func TestConformanceReportsFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, module, more, check, want string }{
		{"error without a message", silent, "", "bad config", "config {}: refused without a message"},
		{"memory grows", counting, "isolation: pooled\nstateful: true\n", "growth", "the guest's memory grew "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := load(t, "\n- {name: x, want: {result: success}}\n")
			cfg := plugintest.Config{Plugin: written(t, c.module, c.more), Run: regexp.MustCompile("conformance: .*" + c.check), Patience: time.Millisecond}
			if got := strings.Join(run(t, f, cfg).Results[0].Failures, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}
