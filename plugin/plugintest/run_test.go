package plugintest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// guest is the path of the module built from testdata/guest, cache the folder of compiled modules,
// and scratch the folder of built programs. They are read-only after TestMain.
var guest, cache, scratch string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == fakePeer {
		os.Exit(playPeer(os.Args[2]))
	}
	if os.Getenv(precompiling) != "" {
		if err := fillCache(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "prober-plugintest-")
	if err == nil {
		scratch = dir
		guest, cache = filepath.Join(dir, "guest.wasm"), filepath.Join(dir, "cache")
		if base, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(base, "prober-test", "wasm") // compiling a guest takes seconds
		}
		if err = build(guest); err == nil {
			err = precompile(guest, "testdata/good_test.yaml")
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if code = m.Run(); code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// precompiling is an environment variable. With it the test program only fills the cache: see
// precompile.
const precompiling = "PLUGINTEST_PRECOMPILE"

// plainTests builds these tests without the race detector. The program must be a test too, because
// wazero caches the modules that tests compile separately.
var plainTests = built("plain.test", nil, "-c", ".")

// precompile compiles a guest into the cache before a run with the race detector, which would take
// a minute for it. It runs these tests without the race detector. file must have a case with the
// name "an answer".
func precompile(module, file string) error {
	if !race {
		return nil
	}
	tests, err := plainTests()
	if err != nil {
		return err
	}
	cmd := exec.Command(tests, cache, module, file)
	cmd.Env = append(os.Environ(), precompiling+"=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("precompile %s: %w\n%s", file, err, text)
	}
	return nil
}

// fillCache compiles a guest into the cache. It runs in the process that precompile starts.
func fillCache(cache, module, file string) error {
	f, err := plugintest.Load(file)
	if err != nil {
		return err
	}
	cfg := plugintest.Config{Plugin: module, CacheDir: cache, CasesOnly: true, Run: regexp.MustCompile("^an answer$")}
	report, err := plugintest.Run(context.Background(), f, cfg)
	if err == nil && (len(report.Results) != 1 || !report.OK()) {
		err = fmt.Errorf("%s: the case does not pass", file)
	}
	return err
}

func build(path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", path, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest: %w\n%s", err, text)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile("testdata/plugin.yaml")
	if err != nil {
		return err
	}
	if module, err = plugin.Embed(module, manifest); err != nil {
		return err
	}
	return os.WriteFile(path, module, 0o600)
}

// load writes a test file with the given cases and loads it.
func load(t *testing.T, cases string) *plugintest.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some_test.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: " + guest + "\ncases:\n" + strings.TrimLeft(cases, "\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := plugintest.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func run(t *testing.T, f *plugintest.File, cfg plugintest.Config) *plugintest.Report {
	t.Helper()
	cfg.CacheDir = cache
	report, err := plugintest.Run(t.Context(), f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRunPassesTestdata(t *testing.T) {
	t.Parallel()
	for path, checks := range map[string]int{"testdata/good_test.yaml": 6, "testdata/web_test.yaml": 0, "testdata/dns_test.yaml": 0, "testdata/icmp_test.yaml": 0} {
		f, err := plugintest.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if race {
			checks = 0 // they make hundreds of calls, for minutes under the race detector
		}
		report := run(t, f, plugintest.Config{Plugin: guest, CasesOnly: checks == 0, Patience: time.Second})
		if want := len(f.Cases) + checks; len(report.Results) != want {
			t.Errorf("%s: %d results, want %d", path, len(report.Results), want)
		}
		for _, r := range report.Results {
			t.Run(r.Name, func(t *testing.T) {
				if !r.OK() {
					t.Errorf("%q\n%s%q", r.Failures, r.Diff, r.Trace)
				}
			})
		}
	}
}

func TestMatrixRunsEachVariant(t *testing.T) {
	t.Parallel()
	f, err := plugintest.Load("testdata/good_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	report := run(t, f, plugintest.Config{Plugin: guest, Matrix: true, CasesOnly: true, Run: regexp.MustCompile("^(an answer|half-open|randomness.*|a trap)$")})
	var variants []string
	for _, r := range report.Results {
		if r.Name == "half-open" {
			variants = append(variants, r.Variant)
		}
		if !r.OK() {
			t.Errorf("%s, %s: %q\n%s", r.Name, r.Variant, r.Failures, r.Diff)
		}
	}
	if got := strings.Join(variants, " "); got != "compiler/reset compiler/fresh interpreter/reset interpreter/fresh" {
		t.Errorf("ran with %s", got)
	}
}

func TestStrictRefusesUnknownFields(t *testing.T) {
	t.Parallel()
	f := load(t, `- {name: a, request: {config: {do: colour}}, want: {result: success}}`)
	if report := run(t, f, plugintest.Config{CasesOnly: true}); !report.OK() {
		t.Errorf("got %q, want the unknown field ignored", report.Results[0].Diff)
	}
	report := run(t, f, plugintest.Config{CasesOnly: true, Strict: true})
	if r := report.Results[0]; r.OK() || !strings.Contains(r.Diff, "+result: error(protocol)") || !strings.Contains(r.Diff, "colour: the field is unknown") {
		t.Errorf("got %q", r.Diff)
	}
}

func TestRandomBytesDependOnPositionInFile(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, request: {config: {do: fine}}, want: {result: success}}
- {name: b, request: {config: {do: random}}, want: {result: success, message: a number}}
`)
	first := run(t, f, plugintest.Config{CasesOnly: true}).Results[1]
	again := run(t, f, plugintest.Config{CasesOnly: true, Run: regexp.MustCompile("b")}).Results[0]
	if first.OK() || first.Diff != again.Diff {
		t.Errorf("case b differs between runs, or depends on case a:\n%s\n%s", first.Diff, again.Diff)
	}
}

// The clock of a case with a time starts there, and the clocks of later cases do not.
func TestSeedAndTimeFixACase(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, seed: 2, request: {config: {do: random}}, want: {result: success, message: a number}}
- {name: b, request: {config: {do: random}}, want: {result: success, message: a number}}
- {name: a again, seed: 2, request: {config: {do: random}}, want: {result: success, message: a number}}
- {name: c, timeout: 2h, time: 2026-01-31T12:00:00Z, request: {config: {do: sleep, for: 1m}}, want: {result: success, message: "slept until 2026-01-31T12:01:00Z"}}
- {name: d, timeout: 2h, request: {config: {do: sleep, for: 1m}}, want: {result: success, message: "slept until 2024-01-06T00:01:00Z"}}
`)
	results := run(t, f, plugintest.Config{CasesOnly: true}).Results
	if results[0].Diff == results[1].Diff || results[0].Diff != results[2].Diff {
		t.Errorf("one seed gives other bytes, or another seed the same:\n%s%s%s", results[0].Diff, results[1].Diff, results[2].Diff)
	}
	for _, r := range results[3:] {
		if !r.OK() {
			t.Errorf("%s: %s", r.Name, r.Diff)
		}
	}
}

func TestRunReportsFailures(t *testing.T) {
	t.Parallel()
	const target = ", request: {target: {host: web.internal, port: 80}}"
	for _, c := range []struct {
		name, text string
		want       []string // in failures, diff and trace
	}{
		{"wrong result and message", `host: {net: [{dial: "tcp://web.internal:80", behaviour: refuse}]}, want: {result: success, message: hi}`,
			[]string{"--- want\n+++ got\n-result: success\n-message: hi\n+result: failure\n+message: dial tcp 10.99.0.1:80: connect: connection refused\n", "call dial"}},
		{"wrong result without message", `host: {net: [{dial: "tcp://web.internal:80", behaviour: refuse}]}, want: {result: success}`,
			[]string{"-result: success\n+result: failure\n+message: dial tcp"}},
		{"wrong metrics, time and memory", `host: {net: [{dial: "tcp://web.internal:80", latency: 1ms, script: [{recv: any}, {close: {}}]}]},
  want: {result: success, metrics: {connect_seconds: {max: 0.0001}, no: 1}, virtualTime: 1s, memory: {max: 64Ki}}`,
			[]string{" result: success\n", "-metrics.connect_seconds: {max: 0.0001}\n", "+metrics.connect_seconds: 0.001\n", "+metrics.no: (none)\n", "-virtualTime: 1s\n", "+virtualTime: 2ms\n", "-memory: {max: 64Ki}\n"}},
		{"denials", `want: {result: failure, denied: [10.0.0.1]}`,
			[]string{"-denied: [\"10.0.0.1\"]\n+denied: []\n", "tcp://web.internal:80, for which host.net has no peer"}},
		{"unexpected bytes", `host: {net: [{dial: "tcp://web.internal:80", script: [{recv: {text: HELO}}]}]}, want: {result: failure}`,
			[]string{`line 5: tcp://web.internal:80: got "hello\n", want "HELO"`}},
		{"script still waits", `host: {net: [{dial: "tcp://web.internal:80", script: [{recv: {text: "hello\n"}}, {recv: {hex: "ff"}}]}]}, want: {result: failure}`,
			[]string{`still waits for hex ff; got ""`}},
		{"unused peer", `host: {net: [{dial: "tcp://web.internal:80", behaviour: refuse}, {dial: "tcp://other:1"}]}, want: {result: failure}`,
			[]string{"tcp://other:1 is never dialled"}},
		{"HTTP method does not match", `host: {http: [{match: {url: /a, method: POST}}, {match: {url: /b}}]}, want: {result: failure}, request: {target: {host: a, port: 1}, config: {do: http, request: '{"url":"http:///a"}'}}`,
			[]string{"the plugin requests GET http://a:1/a, for which host.http has no exchange; line 5: the method is GET, want POST", "line 5: no request matches any method /b"}},
		{"DNS name without a record", `grants: [dns], host: {dns: [{name: a.internal, answers: [10.0.0.1]}, {name: b.internal, type: MX}]}, want: {result: failure}, request: {config: {do: dns, request: '{"name":"c.internal"}'}}`,
			[]string{"the plugin looks up A c.internal, for which host.dns has no record", "line 5: nothing looks up A a.internal", "line 5: nothing looks up MX b.internal"}},
		{"echo request without a reply", `host: {icmp: [{host: a.internal}]}, want: {result: failure}, request: {target: {host: 10.0.0.7}, config: {do: echo}}`,
			[]string{"the plugin sends an echo request to 10.0.0.7, for which host.icmp has no reply", "line 5: no echo request goes to a.internal"}},
		{"another echo request", `host: {icmp: [{request: {payload: 57, hopLimit: 8, dontFragment: true, sourceAddress: 10.0.0.1}}]}, want: {result: success}, request: {target: {host: a.internal}, config: {do: echo}}`,
			[]string{"line 5: the echo request has payload: got 56, want 57; hopLimit: got 9, want 8; sourceAddress: got invalid IP, want 10.0.0.1; dontFragment: got false, want true"}},
		{"missing handshake", `host: {net: [{dial: "tls://web.internal:80", script: [{handshake: {}}]}]}, want: {result: failure}`,
			[]string{`tls://web.internal:80 still waits for a handshake of TLS; got "hello\n"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.text
			if !strings.Contains(text, "request: {") {
				text += target
			}
			r := run(t, load(t, "\n- {name: x, "+text+"}\n"), plugintest.Config{CasesOnly: true}).Results[0]
			if r.OK() {
				t.Fatal("the case passes, want a failure")
			}
			all := strings.Join(r.Failures, "\n") + "\n" + r.Diff + strings.Join(r.Trace, "\n")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in\n%s", want, all)
				}
			}
		})
	}
}

func TestRunSpinningGuestIsStopped(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, want: {result: failure}}\n")
	r := run(t, f, plugintest.Config{Plugin: written(t, spinning), Stuck: 200 * time.Millisecond, CasesOnly: true}).Results[0]
	if want := "the guest ran for 200ms of real time without an end"; !strings.Contains(strings.Join(r.Failures, "\n"), want) {
		t.Errorf("got %q, want %q", r.Failures, want)
	}
}

// variantOf returns the path of a copy of the guest with an edited manifest.
func variantOf(t *testing.T, edit func(string) string) string {
	t.Helper()
	module, err := os.ReadFile(guest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("testdata/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	module, err = plugin.Embed(module, []byte(edit(string(manifest))))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "variant.wasm")
	if err := os.WriteFile(path, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWriteEveryFormat(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: good, request: {config: {do: fine}}, want: {result: success, message: fine}}
- {name: "bad # 1\e[2K", request: {config: {do: "\e[31mred"}}, want: {result: failure}}
`)
	reports := []*plugintest.Report{run(t, f, plugintest.Config{CasesOnly: true})}
	for format, wants := range map[string][]string{
		"table": {"guest 1.2.3  " + f.Path, "  ok    good ", "  FAIL  bad # 1 [2K ", f.Path + ":6: bad # 1 [2K (", "    -result: failure\n    +result: success\n", "1 passed, 1 failed\n"},
		"json":  {`"name": "good"`, `"ok": false`, `"line": 6`},
		"junit": {`<testsuite name="guest 1.2.3" tests="2" failures="1">`, `<testcase name="good" classname="guest 1.2.3 `, `<failure message="the answer differs from the wanted one">`},
		"tap":   {"TAP version 13\n1..2\nok 1 - guest 1.2.3: good (", `not ok 2 - guest 1.2.3: bad \# 1 [2K`},
	} {
		var b bytes.Buffer
		if err := plugintest.Write(&b, format, reports); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", format, want, b.String())
			}
		}
		if strings.ContainsRune(b.String(), '\033') {
			t.Errorf("%s contains an escape character: %q", format, b.String())
		}
		if format == "json" && !json.Valid(b.Bytes()) || format == "junit" && xml.Unmarshal(b.Bytes(), new(struct{})) != nil {
			t.Errorf("%s is not well-formed:\n%s", format, b.String())
		}
	}
}
