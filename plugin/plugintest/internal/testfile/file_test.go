package testfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

func TestLoadInvalidFileNamesLineAndField(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "_test.yaml:1: the file is empty"},
		"no mapping":        {"- a", "_test.yaml:1: must be a mapping, not a list"},
		"no YAML":           {"a: [", "_test.yaml:1: did not find expected node content"},
		"nothing in it":     {"kind: PluginTest", "_test.yaml:1: cases: the field is required"},
		"another version":   {"apiVersion: v2", `_test.yaml:1: apiVersion: must be "prober.dev/v1", not "v2"`},
		"two documents":     {head + "- {name: a, want: {result: success}}\n---\na: b", "must be one document"},
		"a field too many":  {head + "- {name: a, want: {result: success, text: x}}", "_test.yaml:5: cases[0].want.text: unknown field; known: denied, kv, memory, message, metrics, result, virtualTime"},
		"no result":         {head + "- {name: a, want: {}}", "_test.yaml:5: cases[0].want.result: the field is required"},
		"an unknown result": {head + "- {name: a, want: {result: ok}}", `cases[0].want.result: "ok" must be success, warning, failure, unknown or error(reason)`},
		"a name twice":      {head + "- {name: a, want: {result: success}}\n- {name: a, want: {result: success}}", `_test.yaml:6: cases[1].name: the case in line 5 has the name "a", too`},
		"a field twice":     {head + "- {name: a, name: b, want: {result: success}}", "cases[0].name: the field is set twice"},
		"a duration":        {head + "- {name: a, timeout: 5, want: {result: success}}", "cases[0].timeout: must be a duration such as 50ms"},
		"no timeout":        {head + "- {name: a, timeout: 0s, want: {result: success}}", "cases[0].timeout: must be above 0"},
		"a pattern":         {head + "- {name: a, want: {result: success, message: /(/}}", "cases[0].want.message: error parsing regexp"},
		"a behaviour":       {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', behaviour: slow}]}, want: {result: success}}", `cases[0].host.net[0].behaviour: unknown value "slow"`},
		"both":              {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', behaviour: reset, script: [{close: {}}]}]}, want: {result: success}}", "a behaviour or a script, not both"},
		"a process and not": {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', behaviour: reset, peer: {command: a}}]}, want: {result: success}}", "net[0]: a peer that is a process has neither a behaviour nor a script"},
		"no command":        {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', peer: {}}]}, want: {result: success}}", "net[0].peer.command: the field is required"},
		"an empty command":  {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', peer: {command: []}}]}, want: {result: success}}", "net[0].peer.command: must have a program"},
		"an unknown field":  {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', peer: {command: a, env: b}}]}, want: {result: success}}", "net[0].peer.env: unknown field; known: command, listens"},
		"datagrams":         {head + "- {name: a, host: {net: [{dial: 'udp://a:1', peer: {command: a}}]}, want: {result: success}}", "net[0].peer: standard input and output have no datagrams: a peer of UDP needs listens: true"},
		"a URL":             {head + "- {name: a, host: {net: [{dial: 'a:1'}]}, want: {result: success}}", `cases[0].host.net[0].dial: "a:1" must be tcp://host:port`},
		"a step":            {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', script: [{recv: any, close: {}}]}]}, want: {result: success}}", "script[0]: must have exactly one of close, handshake, let, recv, reset, send, wait"},
		"hex":               {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', script: [{recv: {hex: zz}}]}]}, want: {result: success}}", "script[0].recv.hex: column 1: 'z' is not a hexadecimal digit"},
		"an empty send":     {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', script: [{send: {}}]}]}, want: {result: success}}", "script[0].send: must have one of hex, text"},
		"a web URL":         {head + "- {name: a, host: {http: [{match: {url: a}}]}, want: {result: success}}", `cases[0].host.http[0].match.url: "a" must be /path, http://host/path or /a regular`},
		"no match":          {head + "- {name: a, host: {http: [{reply: {}}]}, want: {result: success}}", "cases[0].host.http[0].match: the field is required"},
		"a reply and not":   {head + "- {name: a, host: {http: [{match: {}, behaviour: reset, reply: {body: a}}]}, want: {result: success}}", "a behaviour or a reply"},
		"a status":          {head + "- {name: a, host: {http: [{match: {}, reply: {status: 5}}]}, want: {result: success}}", "cases[0].host.http[0].reply.status: must be at least 100"},
		"an end":            {head + "- {name: a, host: {http: [{match: {}, reply: {end: garbage}}]}, want: {result: success}}", `reply.end: unknown value "garbage"; known: half-open, reset`},
		"a body":            {head + "- {name: a, host: {http: [{match: {body: {xml: a}}}]}, want: {result: success}}", "match.body.xml: unknown field; known: hex, json, text"},
		"a record's type":   {head + "- {name: a, host: {dns: [{name: a, type: HINFO}]}, want: {result: success}}", `cases[0].host.dns[0].type: unknown value "HINFO"; known: A, AAAA, CNAME`},
		"an rcode":          {head + "- {name: a, host: {dns: [{name: a, rcode: OK}]}, want: {result: success}}", `dns[0].rcode: unknown value "OK"; known: FORMERR, NOERROR`},
		"a record's data":   {head + "- {name: a, host: {dns: [{name: a, answers: [b]}]}, want: {result: success}}", "dns[0].answers[0].data: ParseAddr"},
		"another family":    {head + "- {name: a, host: {dns: [{name: a, type: AAAA, answers: [10.0.0.1]}]}, want: {result: success}}", "10.0.0.1 is not an address of the type AAAA"},
		"half an MX":        {head + "- {name: a, host: {dns: [{name: a, type: MX, answers: [mx.a]}]}, want: {result: success}}", `"mx.a" must have 2 fields, as in a zone file`},
		"a number":          {head + "- {name: a, host: {dns: [{name: a, type: MX, answers: [x mx.a]}]}, want: {result: success}}", "invalid syntax"},
		"a DNS server":      {head + "- {name: a, host: {dns: [{name: a, server: b}]}, want: {result: success}}", `dns[0].server: "b" must be target, or host:port`},
		"answers and not":   {head + "- {name: a, host: {dns: [{name: a, behaviour: reset, answers: [10.0.0.1]}]}, want: {result: success}}", "a behaviour or answers"},
		"a grant":           {head + "- {name: a, grants: [everything], want: {result: success}}", `cases[0].grants[0]: grant "everything": unknown; known: target`},
		"a size":            {head + "- {name: a, want: {result: success, memory: {max: lots}}}", "cases[0].want.memory.max: "},
		"a reason":          {head + "- {name: a, want: {result: error(oom)}}", `_test.yaml:5: cases[0].want.result: unknown reason "oom"; known: config, connect_refused`},
		"a port":            {head + "- {name: a, request: {target: {host: a, port: 65536}}, want: {result: success}}", "cases[0].request.target.port: must be at most 65535"},
		"too much is kept":  {head + "- {name: a, host: {kv: {a: " + strings.Repeat("x", 64<<10) + "}}, want: {result: success}}", "cases[0].host.kv.a: the probe would keep 65537 bytes, the limit is 65536"},
		"after its end":     {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', script: [{close: {}}, {recv: any}, {send: {text: b}}]}]}, want: {result: success}}", "_test.yaml:5: cases[0].host.net[0].script[2]: the peer has ended the connection before"},
		"a metric":          {head + "- {name: a, want: {result: success, metrics: {m: {min: x}}}}", `cases[0].want.metrics.m.min: "x" must be a number`},
		"no default":        {"defaults: {timeout: 0s}\n" + head + "- {name: a, want: {result: success}}", "_test.yaml:1: defaults.timeout: must be above 0"},
		"half a regex":      {head + "- {name: a, host: {net: [{dial: 'tcp://a:1', script: [{recv: {regex: (}}]}]}, want: {result: success}}", "recv.regex: error parsing regexp: missing closing ): `(`"},
		"a seed":            {head + "- {name: a, seed: -1, want: {result: success}}", `_test.yaml:5: cases[0].seed: "-1" must be an integer from 0 to 18446744073709551615`},
		"a time":            {head + "- {name: a, time: noon, want: {result: success}}", `_test.yaml:5: cases[0].time: "noon" must be a time such as 2026-01-31T12:00:00Z`},
		"an early time":     {head + "- {name: a, time: 2023-12-31T23:59:59Z, want: {result: success}}", `_test.yaml:5: cases[0].time: must not be before 2024-01-01T00:00:00Z`},
		"an address":        {head + "- {name: a, host: {names: {a: [b]}}, want: {result: success}}", "cases[0].host.names.a[0]: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x_test.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := testfile.Load(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLoadInvalidScriptNamesLineAndColumn(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n- name: a\n  want: {result: success}\n  host:\n    net:\n    - dial: tcp://a:1\n      script:\n"
	for name, c := range map[string]struct{ steps, want string }{
		"an unknown name":       {"- recv: {length: 2, as: id}\n- send: {hex: '00 ${od}'}", `_test.yaml:12: cases[0].host.net[0].script[1].send.hex: column 6: unknown name "od"; known: id (did you mean "id"?)`},
		"a later name":          {"- send: {text: '${id}'}\n- recv: {length: 2, as: id}", `_test.yaml:11: cases[0].host.net[0].script[0].send.text: column 3: unknown name "id"`},
		"an unused name":        {"- recv: {length: 2, as: id}\n- close: {}", `_test.yaml:11: cases[0].host.net[0].script: no later step uses "id"`},
		"an unused group":       {"- recv: {regex: '(?P<id>a)'}", `_test.yaml:11: cases[0].host.net[0].script: no later step uses "id"`},
		"an unused value":       {"- let: {a: 1 + 2}", `_test.yaml:11: cases[0].host.net[0].script: no later step uses "a"`},
		"an unused body":        {"- recv: {lengthPrefix: {bytes: 2, body: b}}", `no later step uses "b"`},
		"a name twice":          {"- recv: {length: 2, as: id}\n- recv: {regex: '(?P<id>a)'}\n- send: {text: '${id}'}", `_test.yaml:12: cases[0].host.net[0].script[1].recv.regex: line 11 has the name "id", too`},
		"a wrong type":          {"- let:\n    n: 1 + 2\n    h: sha1(n)", "_test.yaml:13: cases[0].host.net[0].script[0].let.h: column 6: the argument is an integer, want bytes: sha1(b)"},
		"before outside":        {"- let: {n: before}", "script[0].let.n: column 1: before is part of a message"},
		"a message that is not": {"- let: {n: {dec: 1}}", "script[0].let.n.dec: unknown field; known: hex, text"},
		"two kinds":             {"- recv: {text: a, length: 2}", "script[0].recv: must have exactly one of any, hex, http, length, lengthPrefix, prefix, regex, text, until"},
		"only a name":           {"- recv: {as: a}\n- send: {text: '${a}'}", "script[0].recv: must have exactly one of any,"},
		"no length":             {"- recv: {length: 0}", "script[0].recv.length: must be at least 1"},
		"no kind of length":     {"- recv: {lengthPrefix: {includes: true}}", "script[0].recv.lengthPrefix: must have one of bytes, encoding"},
		"two kinds of length":   {"- recv: {lengthPrefix: {bytes: 2, encoding: ber}}", "script[0].recv.lengthPrefix: must have one of bytes, encoding"},
		"an order of BER":       {"- recv: {lengthPrefix: {encoding: ber, order: big}}", "an encoding has no order"},
		"an unknown order":      {"- recv: {lengthPrefix: {bytes: 2, order: middle}}", `script[0].recv.lengthPrefix.order: unknown value "middle"; known: big, little`},
		"two sends":             {"- send: {text: a, hex: '00'}", "script[0].send: must have one of hex, text"},
		"an empty end":          {"- recv: {until: ''}", "script[0].recv.until: must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x_test.yaml")
			text := head + "      " + strings.ReplaceAll(c.steps, "\n", "\n      ") + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := testfile.Load(path); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q alone", err, c.want)
			}
		})
	}
}

// Each mistake is one error, in the file that has it.
func TestLoadReportsEachMistakeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x_test.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ndefaults: {timeout: soon}\ncases:\n" +
		"- {name: a, want: {result: success}}\n- {name: b, replay: nosuch.yaml}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := testfile.Load(path)
	want := path + ":4: defaults.timeout: must be a duration such as 50ms, 1s or 1m30s\n" +
		path + ":7: cases[1].replay: open " + filepath.Dir(path) + "/nosuch.yaml: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestUnservableReturnsReason checks why a process cannot be shown a case.
func TestUnservableReturnsReason(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: x\ncases:\n- {name: a, request: {target: {host: db, port: 1}}, want: {result: success}, host: "
	for _, c := range []struct {
		guided     bool
		host, want string
	}{
		{true, "{net: [{dial: tcp://db:1}, {dial: tls://other:1}]}", ""},
		{true, "{net: [{dial: tcp://db:1, latency: 1s}]}", "line 5: on loopback a connection is made at once"},
		{true, "{net: [{dial: tcp://db:1}, {dial: tcp://db:1, behaviour: refuse}]}", "line 5: a port of loopback is either open or not"},
		{true, "{http: [{match: {}, behaviour: refuse}, {match: {}}]}", "line 5: a port of loopback is either open or not"},
		{true, "{http: [{match: {}, tls: {names: [a]}}, {match: {}}]}", "line 5: one port shows one certificate, before it is asked anything"},
		{true, "{net: [{dial: tcp://db:1}], http: [{match: {}}]}", "line 5: one port is of host.net or of host.http"},
		{true, "{dns: [{name: db, behaviour: refuse}, {name: a, answers: [10.0.0.1]}]}", "line 5: a port of loopback is either open or not"},
		{true, "{dns: [{name: db, behaviour: reset}]}", "line 5: a question over UDP is not reset"},
		{false, "{net: [{dial: tcp://db:1}]}", ""},
		{false, "{net: [{dial: tcp://other:1}]}", "line 5: tcp://other:1 is not at the target, and this process dials by itself"},
		{false, "{net: [{dial: tls://db:1}]}", "line 5: this process does not know whom to trust, and makes its TLS by itself"},
		{false, "{dns: [{name: db, answers: [10.0.0.1]}]}", "this process looks names up by itself"},
		{false, "{http: [{match: {url: 'http://other/'}}]}", "line 5: http://other/ is not at the target, and this process dials by itself"},
		{false, "{http: [{match: {url: 'https://db:1/'}}]}", "line 5: this process does not know whom to trust, and makes its TLS by itself"},
	} {
		path := filepath.Join(t.TempDir(), "x_test.yaml")
		if err := os.WriteFile(path, []byte(head+c.host+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := testfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := peer.New(f.Cases[0].Setup(), &clock.Real{}, 1).Unservable(c.guided); got != c.want {
			t.Errorf("%s: got %q, want %q", c.host, got, c.want)
		}
	}
}

func TestFindReturnsFilesAndFilesBelowFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a_test.yaml", "b/b_test.yaml", "b/plugin.yaml", ".git/c_test.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := testfile.Find([]string{dir, filepath.Join(dir, "b", "b_test.yaml")})
	want := filepath.Join(dir, "a_test.yaml") + " " + filepath.Join(dir, "b", "b_test.yaml")
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
	if _, err := testfile.Find([]string{t.TempDir()}); err == nil {
		t.Error("a folder without test files is no error")
	}
	if _, err := testfile.Find([]string{filepath.Join(dir, "nosuch")}); err == nil {
		t.Error("a missing folder is no error")
	}
}

func FuzzLoad(f *testing.F) {
	const head = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: x\ncases:\n- name: a\n  want: {result: success}\n  host:\n"
	f.Add(head + "    net: [{dial: 'tcp://a:1', script: [{recv: {http: {url: /}}}, {send: {hex: 00}}]}]")
	f.Add(head + "    http: [{match: {body: {json: [1]}}, reply: {headers: {a: [b]}}}]")
	f.Add(head + "    dns: [{name: a, type: SOA, answers: [a b 1 2 3 4 5]}]")
	f.Add(head + "    names: &a {b: [*a]}")
	path := filepath.Join(f.TempDir(), "x_test.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := testfile.Load(path)
		if err == nil && len(file.Cases) > 0 && file.Cases[0].Want.Result == "" {
			t.Error("a case without a result")
		}
	})
}
