package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// bareModule has one import, prober_v1_net.close, and no names.
const bareModule = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x02\x17\x01\x0dprober_v1_net\x05close\x00\x00"

func TestPluginVet(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nrequests: [{capability: kv}]\n",
		"main.go": "package main\n\nimport (\n\tweb \"net/http\"\n\t\"net\"\n)\n\nfunc main() {\n" +
			"\t_, _ = net.Dial(\"tcp\", net.JoinHostPort(\"a\", \"1\"))\n\t_, _ = web.Get(\"http://a\")\n}\n",
		"main_test.go": "package main\n\nimport \"net\"\n\nvar _ = net.Dial\n",
		"main.c":       "#include <netdb.h>\n",
		"lib.rs":       "// std::net:: is none\n  use std::net::TcpStream;\n",
		"index.ts":     "let a = Date.now();\n",
		"demo.wasm":    bareModule,
	})
	code, stdout, stderr := run(nil, "plugin", "vet", dir)
	want := []string{
		dir + "/plugin.yaml: config.schema: there is none, so that any config is taken",
		dir + "/plugin.yaml: requests: kv: there is no reason for the operator who decides",
		dir + "/demo_test.yaml: there is none: nothing shows that the plugin works",
		dir + "/main.go:9:9: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + "/main.go:10:9: web.Get reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + "/index.ts:1:9: Date.now is no function of prober's: use now",
		dir + "/lib.rs:2:7: std::net reaches no network in a guest: use prober::net",
		dir + "/main.c:1:10: <netdb.h> reaches no network in a guest: use prober_dial",
		dir + `/demo.wasm: imports prober_v1_net, and the manifest does not ask for "net"`,
		dir + `/demo.wasm: imports nothing of prober_v1_kv, and the manifest asks for "kv"`,
		dir + "/demo.wasm: the names of functions are stripped: a trap says no more where it was",
		"",
	}
	if code != 1 || stdout != strings.Join(want, "\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, _ = run(nil, "plugin", "vet", dir, "-o", "json")
	if code != 1 || !strings.Contains(stdout, `"line": 9,`) || !strings.Contains(stdout, `"field": "config.schema",`) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// A plugin that has the name of a built-in handler works everywhere but in an agent, and of a
// metric that has a name of this kind no host takes anything.
func TestPluginVetKnowsNames(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nkind: Plugin\nname: tcp\nversion: 1.0.0\nconfig: {schema: {type: object}}\n" +
			"metrics: [{name: " + strings.Repeat("g", 128) + "}, {name: Not-good}, {name: " + strings.Repeat("g", 129) + "}]\n",
		"demo_test.yaml": "",
	})
	code, stdout, _ := run(nil, "plugin", "vet", dir)
	if want := dir + "/plugin.yaml: name: \"tcp\" is a built-in handler: no agent loads a plugin of that name\n" +
		dir + "/plugin.yaml: metrics[1].name: \"Not-good\" is no name of a metric: want ^[a-z_][a-z0-9_]{0,127}$\n" +
		dir + "/plugin.yaml: metrics[2].name: \"" + strings.Repeat("g", 80) + "\" is no name of a metric: want ^[a-z_][a-z0-9_]{0,127}$\n"; code != 1 || stdout != want {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
}

// A program that imports sdkhttp may use net/http as it stands, but not net.
func TestPluginVetKnowsSdkhttp(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"plugin.yaml":    "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nconfig: {schema: {type: object}}\n",
		"demo_test.yaml": "",
		"web.go":         "package main\n\nimport _ \"github.com/daeace23/prober/sdk/sdkhttp\"\n",
		"main.go":        "package main\n\nimport (\n\t\"net\"\n\t\"net/http\"\n)\n\nvar _, _ = http.Get, net.Dial\n",
	})
	code, stdout, _ := run(nil, "plugin", "vet", dir)
	if want := dir + "/main.go:8:22: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp\n"; code != 1 || stdout != want {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
}

// unknownImports is a module that imports env.abort and prober_v1.frobs.
const unknownImports = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" +
	"\x02\x1f\x02\x03env\x05abort\x00\x00\x09prober_v1\x05frobs\x00\x00"

// What a module imports and no prober has is said by name.
func TestPluginVetUnknownImports(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"plugin.yaml":    "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nconfig: {schema: {type: object}}\n",
		"demo_test.yaml": "",
		"demo.wasm":      unknownImports,
	})
	_, stdout, stderr := run(nil, "plugin", "vet", dir)
	writeTree(t, dir, map[string]string{
		"demo.wat": "", "module": unknownImports, "cp": "#!/bin/sh\ncp module \"$4\"\n",
	})
	t.Setenv("WAT2WASM", filepath.Join(dir, "cp"))
	_, _, warned := run(nil, "plugin", "build", dir)
	if want := "prober: warning: the module imports env.abort, which this prober does not have\n"; !strings.Contains(warned, want) {
		t.Errorf("no %q in\n%s", want, warned)
	}
	for _, want := range []string{"imports env.abort, which this prober does not have\n", "imports prober_v1.frobs, which this prober does not have\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
}
