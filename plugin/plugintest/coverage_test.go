package plugintest_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// named returns a module with functions of these names. Each returns 0, save the last, probe, which calls the
// first one.
func named(names ...string) string {
	n := string(rune(len(names)))
	section := func(id byte, body string) string {
		return string(binary.AppendUvarint([]byte{id}, uint64(len(body)))) + body
	}
	code, table := n, n
	for i, name := range names {
		body := "\x00\x41\x00\x0b" // no locals, i32.const 0
		if i == len(names)-1 {
			body = "\x00\x10\x00\x0b" // call 0
		}
		code += string(rune(len(body))) + body
		table += string(rune(i)) + string(rune(len(name))) + name
	}
	return "\x00asm\x01\x00\x00\x00" +
		section(1, "\x01\x60\x00\x01\x7f") + // () -> i32
		section(3, n+strings.Repeat("\x00", len(names))) +
		section(5, "\x01\x00\x01") + // one page of memory
		section(7, "\x02\x06memory\x02\x00\x05probe\x00"+string(rune(len(names)-1))) +
		section(10, code) +
		section(0, "\x04name"+section(1, table))
}

func TestCoverageCountsFunctionsOfTheAuthor(t *testing.T) {
	for _, c := range []struct {
		lang  string
		names []string
		want  []plugintest.Function
	}{
		{"C", []string{"check", "unused", "prober_read", "memcpy", "probe"}, []plugintest.Function{{"check", 2}, {"probe", 2}, {"unused", 0}}},
		{"Go", []string{"main.check.Probe", "runtime.main", "probe"}, []plugintest.Function{{"main.check.Probe", 2}}},
		{"AssemblyScript", []string{"index/judge", "~lib/string/x", "prober-sdk/net/dial", "index/probe"}, []plugintest.Function{{"index/judge", 2}, {"index/probe", 2}}},
		{
			"Rust",
			[]string{"_ZN4demo5judge17h0123456789abcdefE", "core::fmt::x::h0123456789abcdef", "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmtE", "_ZN6prober3runE", "demo::probe::h0123456789abcdef"},
			[]plugintest.Function{{"demo::judge", 2}, {"demo::probe", 2}},
		},
	} {
		t.Run(c.lang, func(t *testing.T) {
			dir := t.TempDir()
			module, err := plugin.Embed([]byte(named(c.names...)), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"))
			if err != nil {
				t.Fatal(err)
			}
			const cases = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./demo.wasm\ncases:\n- {name: one, want: {result: success}}\n- {name: two, want: {result: success}}\n"
			for name, text := range map[string]string{"demo.wasm": string(module), "demo_test.yaml": cases} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := plugintest.Load(filepath.Join(dir, "demo_test.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := plugintest.Config{Cover: true, CacheDir: t.TempDir()}
			report, err := plugintest.Run(t.Context(), f, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, report.Functions); diff != "" || len(report.Results) != 2 {
				t.Errorf("%d results; -want +got:\n%s", len(report.Results), diff)
			}
			var table strings.Builder
			if err := plugintest.Write(&table, "table", []*plugintest.Report{report}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(table.String(), "  2  "+c.want[0].Name+"\n") || !strings.Contains(table.String(), "\ncoverage: the cases call ") {
				t.Errorf("got\n%s", &table)
			}
			cfg.Cover = false
			if report, err = plugintest.Run(t.Context(), f, cfg); err != nil || report.Functions != nil {
				t.Errorf("without Cover: %v, %v", report.Functions, err)
			}
		})
	}
}
