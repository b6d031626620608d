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

// branch returns a module whose probe takes the second of two branches. Its line table has the given program and
// files; "" is no table.
func branch(program string, files ...string) string {
	section := func(id byte, body string) string {
		return string(binary.AppendUvarint([]byte{id}, uint64(len(body)))) + body
	}
	sized := func(text string) string {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	table := ""
	if program != "" {
		header := "\x01\x01\x01\xfb\x0e\x0d\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01\x00" + strings.Join(files, "\x00\x00\x00\x00") + "\x00\x00\x00\x00\x00"
		table = section(0, "\x0b.debug_line"+sized("\x04\x00"+sized(header)+program))
	}
	const body = "\x00\x41\x00\x04\x7f\x41\x02\x05\x41\x00\x0b\x0b" // no locals; i32.const 0, if, i32.const 2, else, i32.const 0, end
	return "\x00asm\x01\x00\x00\x00" +
		section(1, "\x01\x60\x00\x01\x7f") +
		section(3, "\x01\x00") +
		section(5, "\x01\x00\x01") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00") +
		section(10, "\x01\x0c"+body) + table
}

// Rows of the code of branch: the condition, and the branches.
const (
	condition = "\x00\x05\x02\x03\x00\x00\x00" + "\x03\x09\x01" // at byte 3: line 10
	first     = "\x00\x05\x02\x07\x00\x00\x00" + "\x03\x01\x01" // at byte 7: line 11
	second    = "\x00\x05\x02\x0a\x00\x00\x00" + "\x03\x02\x01" // at byte 10: line 13
	endOfCode = "\x00\x05\x02\x0c\x00\x00\x00" + "\x00\x01\x01"
)

// testModule runs two cases with a module.
func testModule(t *testing.T, dir, module string, cfg plugintest.Config) *plugintest.Report {
	t.Helper()
	embedded, err := plugin.Embed([]byte(module), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"))
	if err != nil {
		t.Fatal(err)
	}
	const cases = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./demo.wasm\ncases:\n- {name: one, want: {result: success}}\n- {name: two, want: {result: success}}\n"
	for name, text := range map[string]string{"demo.wasm": string(embedded), "demo_test.yaml": cases, "main.c": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := plugintest.Load(filepath.Join(dir, "demo_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.CacheDir, cfg.Interpreter = t.TempDir(), true
	report, err := plugintest.Run(t.Context(), f, cfg)
	if err != nil || !report.OK() || len(report.Results) != 2 {
		t.Fatalf("got %v, %+v", err, report)
	}
	return report
}

// tableOf returns the table of a report.
func tableOf(t *testing.T, report *plugintest.Report) string {
	t.Helper()
	var table strings.Builder
	if err := plugintest.Write(&table, "table", []*plugintest.Report{report}); err != nil {
		t.Fatal(err)
	}
	return table.String()
}

func TestCoverageOfLines(t *testing.T) {
	dir := t.TempDir()
	lines := []plugintest.Line{{10, 2}, {11, 0}, {13, 2}}
	main := filepath.Join(dir, "main.c")
	for _, c := range []struct {
		name, program string
		files         []string
		want          []plugintest.Source
	}{
		{"a relative path", condition + first + second + endOfCode, []string{"main.c"}, []plugintest.Source{{main, lines}}},
		{"an absolute path", condition + first + second + endOfCode, []string{"/nowhere/main.c"}, []plugintest.Source{{"/nowhere/main.c", lines}}},
		{"a file that is not here", condition + first + second + endOfCode, []string{"gone.c"}, []plugintest.Source{{"gone.c", lines}}},
		{"a file that is not here beside one that is", condition + first + "\x04\x02" + second + endOfCode, []string{"main.c", "gone.c"}, []plugintest.Source{{main, lines[:2]}}},
		{"a file of a library", condition + "\x04\x02" + first + "\x04\x01" + second + endOfCode, []string{"main.c", "/usr/include/string.h"}, []plugintest.Source{{main, []plugintest.Line{{10, 2}, {13, 2}}}}},
		{"a function that the linker removed", "\x00\x05\x02\x00\x00\x00\x00\x01\x02\x14\x00\x01\x01" + condition + endOfCode, []string{"main.c"}, []plugintest.Source{{main, lines[:1]}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := testModule(t, dir, branch(c.program, c.files...), plugintest.Config{Cover: true})
			if diff := cmp.Diff(c.want, report.Sources); diff != "" || report.NoLines != "" {
				t.Errorf("%s -want +got\n%s", report.NoLines, diff)
			}
		})
	}
	report := testModule(t, dir, branch(condition+first+second+endOfCode, "main.c"), plugintest.Config{Cover: true})
	if want := main + ": 2 of 3 lines (66%); not reached: 11\ncoverage: the cases reach 2 of 3 lines (66%)\n"; !strings.Contains(tableOf(t, report), want) {
		t.Errorf("got\n%swant\n%s", tableOf(t, report), want)
	}
	var lcov strings.Builder
	some, err := plugintest.WriteLCOV(&lcov, []*plugintest.Report{report, report})
	if want := "TN:\nSF:" + main + "\nDA:10,4\nDA:11,0\nDA:13,4\nLF:3\nLH:2\nend_of_record\n"; err != nil || !some || lcov.String() != want {
		t.Errorf("got %v, %v\n%swant\n%s", some, err, lcov.String(), want)
	}
}

func TestCoverageWithoutLines(t *testing.T) {
	for want, module := range map[string]string{
		"such as clang -g": branch(""),
		"the module's line table cannot be read: .debug_line at byte 0: malformed": branch("\x00\x09\x02"),
		"the module's line table has no file of the plugin":                        branch(condition+endOfCode, "/rustc/0/library/core/src/num.rs"),
		"the module's line table does not fit its code":                            branch("\x00\x05\x02\x00\x01\x00\x00\x01\x02\x04\x00\x01\x01", "main.c"),
		"Go writes no line table into modules":                                     named("main.main", "runtime.main", "probe"),
	} {
		report := testModule(t, t.TempDir(), module, plugintest.Config{Cover: true})
		if !strings.Contains(report.NoLines, want) || len(report.Sources) > 0 || !strings.Contains(tableOf(t, report), "\nlines: "+report.NoLines+"\n") {
			t.Errorf("got %q, want %q", report.NoLines, want)
		}
		if some, err := plugintest.WriteLCOV(&strings.Builder{}, []*plugintest.Report{report}); some || err != nil {
			t.Errorf("%s: got %v, %v", want, some, err)
		}
	}
}

func TestProfile(t *testing.T) {
	report := testModule(t, t.TempDir(), named("_ZN4demo5judge17h0123456789abcdefE", "unused", "probe"), plugintest.Config{Profile: true})
	p := report.Profile
	if len(p.Functions) != 2 || p.Functions[0].Name != "probe" || p.Functions[1].Name != "demo::judge" || p.Reason != "" || report.Functions != nil {
		t.Fatalf("got %+v", p)
	}
	for _, f := range p.Functions {
		if f.Calls != 2 || f.Fuel == 0 {
			t.Errorf("got %+v", f)
		}
	}
	for _, want := range []string{"%      2  probe\n", "%      2  demo::judge\n", "\nprofile: the cases take "} {
		if table := tableOf(t, report); !strings.Contains(table, want) {
			t.Errorf("got\n%swant %q", table, want)
		}
	}
}
