package plugincmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// bareModule has one import, prober_v1_net.close, the required exports, and no names.
const bareModule = "\x00asm\x01\x00\x00\x00" +
	"\x01\x0d\x03\x60\x01\x7f\x01\x7f\x60\x00\x01\x7f\x60\x00\x00" + // (i32) -> i32, () -> i32, () -> ()
	"\x02\x17\x01\x0dprober_v1_net\x05close\x00\x00" +
	"\x03\x03\x02\x01\x02" + // two functions
	"\x05\x03\x01\x00\x01" + // one page of memory
	"\x07\x1b\x03\x06memory\x02\x00\x05probe\x00\x01\x06_start\x00\x02" +
	"\x0a\x09\x02\x04\x00\x41\x00\x0b\x02\x00\x0b" // i32.const 0; nothing

func TestPluginVet(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nrequests: [{capability: kv}]\n",
		"main.go": "package main\n\nimport (\n\tweb \"net/http\"\n\t\"net\"\n)\n\nfunc main() {\n" +
			"\t_, _ = net.Dial(\"tcp\", net.JoinHostPort(\"a\", \"1\"))\n\t_, _ = web.Get(\"http://a\")\n}\n",
		"main_test.go": "package main\n\nimport \"net\"\n\nvar _ = net.Dial\n",
		"main.c":       "#include <netdb.h>\n",
		"lib.rs":       "// std::net::TcpStream is none\n  use std::net::{IpAddr, TcpStream};\nuse std::net::IpAddr;\n",
		"index.ts":     "let a = Date.now();\n",
		"demo.wasm":    bareModule,
	})
	code, stdout, stderr := clitest.Run(nil, "plugin", "vet", dir)
	want := []string{
		dir + "/plugin.yaml:1: config.schema: is not set: any config is accepted",
		dir + "/plugin.yaml:5: requests[0]: kv: no reason: the operator needs one to decide",
		dir + "/demo_test.yaml: is missing: there are no test cases",
		dir + "/main.go:9:9: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + "/main.go:10:9: web.Get reaches no network in a guest: use sdk.Dial, or sdkhttp",
		dir + "/index.ts:1:9: Date.now is no function of prober's: use now",
		dir + "/lib.rs:2:7: std::net reaches no network in a guest: use prober::net",
		dir + "/main.c:1:10: <netdb.h> reaches no network in a guest: use prober_dial",
		dir + `/demo.wasm: imports prober_v1_net, but the manifest does not request "net"`,
		dir + `/demo.wasm: imports nothing of prober_v1_kv, but the manifest requests "kv"`,
		dir + "/demo.wasm: the names of functions are stripped: a trap cannot say where it was",
		"",
	}
	if code != 1 || stdout != strings.Join(want, "\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, _ = clitest.Run(nil, "plugin", "vet", dir, "-o", "json")
	if code != 1 || !strings.Contains(stdout, `"line": 9,`) || !strings.Contains(stdout, `"field": "config.schema",`) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// A plugin with the name of a built-in handler works everywhere except in an agent. Hosts drop metrics with
// an invalid name.
func TestPluginVetKnowsNames(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nkind: Plugin\nname: tcp\nversion: 1.0.0\nconfig: {schema: {type: object}}\n" +
			"metrics: [{name: " + strings.Repeat("g", 128) + "}, {name: Not-good}, {name: " + strings.Repeat("g", 129) + "}]\n",
		"demo_test.yaml": "",
	})
	code, stdout, _ := clitest.Run(nil, "plugin", "vet", dir)
	if want := dir + "/plugin.yaml:3: name: \"tcp\" is a built-in handler: no agent loads a plugin of that name\n" +
		dir + "/plugin.yaml:6: metrics[1].name: \"Not-good\" is not a name of a metric: must match ^[a-z_][a-z0-9_]{0,127}$\n" +
		dir + "/plugin.yaml:6: metrics[2].name: \"" + strings.Repeat("g", 80) + "\" is not a name of a metric: must match ^[a-z_][a-z0-9_]{0,127}$\n"; code != 1 || stdout != want {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
}

// A program that imports sdkhttp may use net/http, but not net.
func TestPluginVetKnowsSdkhttp(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml":    "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nconfig: {schema: {type: object}}\n",
		"demo_test.yaml": "",
		"web.go":         "package main\n\nimport _ \"github.com/daeace23/prober/sdk/sdkhttp\"\n",
		"main.go":        "package main\n\nimport (\n\t\"net\"\n\t\"net/http\"\n)\n\nvar _, _ = http.Get, net.Dial\n",
	})
	code, stdout, _ := clitest.Run(nil, "plugin", "vet", dir)
	if want := dir + "/main.go:8:22: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp\n"; code != 1 || stdout != want {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
}

// contractBreakers are modules that no host can load, each for several reasons.
var contractBreakers = map[string][]string{
	"\x00asm\x01\x00\x00\x00": {`the module exports no "memory"`, `the module exports no function "probe": export it, or build a program, which exports "_start"`},
	// (i32) -> i32 as probe, validate_config and _initialize, over a memory.
	"\x00asm\x01\x00\x00\x00" + "\x01\x06\x01\x60\x01\x7f\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x32\x04\x06memory\x02\x00\x05probe\x00\x00\x0fvalidate_config\x00\x00\x0b_initialize\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b": {
		`the export "probe" has another signature than version 1 of the contract: got (i32) -> (i32), want () -> (i32)`,
		`the export "validate_config" has another signature than version 1 of the contract: got (i32) -> (i32), want () -> (i32)`,
		`the export "_initialize" has another signature than version 1 of the contract: got (i32) -> (i32), want () -> ()`,
	},
	// A table that is called probe, and the imports prober_v1.frobs and prober_v1.message, both () -> ().
	"\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" +
		"\x02\x27\x02\x09prober_v1\x05frobs\x00\x00\x09prober_v1\x07message\x00\x00" +
		"\x04\x04\x01\x70\x00\x00" + "\x05\x03\x01\x00\x01" + "\x07\x12\x02\x06memory\x02\x00\x05probe\x01\x00": {
		"unknown import prober_v1.frobs: this prober does not have it",
		"import prober_v1.message has another signature than version 1 of the contract: got () -> (), want (i32, i32) -> ()",
		`the module exports no function "probe": export it, or build a program, which exports "_start"`,
	},
}

func TestEveryBreachOfContractIsReported(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": strings.Replace(netManifest, "demo-1", "demo", 1) + "config: {schema: {type: object}}\n", "demo_test.yaml": clitest.Cases,
		"demo.wat": "", "cp": "#!/bin/sh\ncp module \"$4\"\n",
	})
	t.Setenv("WAT2WASM", filepath.Join(dir, "cp"))
	for module, want := range contractBreakers {
		clitest.WriteTree(t, dir, map[string]string{"module": module, "demo.wasm": "as it was"})
		code, stdout, stderr := clitest.Run(nil, "plugin", "build", dir)
		built := "prober: error: plugin \"demo\": " + strings.Join(want, "\nprober: error: ") + " (" + dir + ")\n" +
			"prober: hint: nothing was written: no prober loads such a module\n"
		if code != 1 || stdout != "" || stderr != built {
			t.Errorf("build: exit code %d\n%s%s\nwant\n%s", code, stdout, stderr, built)
		}
		checkFile(t, filepath.Join(dir, "demo.wasm"), []byte("as it was"))
		clitest.WriteTree(t, dir, map[string]string{"demo.wasm": module})
		code, stdout, _ = clitest.Run(nil, "plugin", "vet", dir)
		for _, w := range want {
			if code != 1 || !strings.Contains(stdout, dir+"/demo.wasm: "+w+"\n") {
				t.Errorf("vet: exit code %d\n%s\nwant\n%s", code, stdout, w)
			}
		}
		if code, _, stderr = clitest.Run(nil, "plugin", "test", dir); code != 64 || !strings.Contains(stderr, `plugin "demo": `) {
			t.Errorf("test: exit code %d\n%s", code, stderr) // the host cannot load it
		}
	}
}

// A module that exports _start and no probe is probably not meant to be a reactor.
func TestVetCommandWithoutMode(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\n",
		"demo.wasm":   strings.Replace(bareModule, "\x05probe", "\x05prope", 1),
	})
	_, stdout, _ := clitest.Run(nil, "plugin", "vet", dir)
	if want := dir + "/demo.wasm: exports _start and no probe, so it runs as a program: set mode: command in plugin.yaml\n"; !strings.Contains(stdout, want) {
		t.Errorf("no %q in\n%s", want, stdout)
	}
}

// vet checks all packages of the plugin's module that main imports, in any folder. It ignores files for other
// systems, and packages that nothing imports.
func TestPluginVetPackages(t *testing.T) {
	dir := t.TempDir()
	const dials = "import \"net\"\n\nvar _ = net.Dial\n"
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml":            "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\nconfig: {schema: {type: object}}\n",
		"demo_test.yaml":         "",
		"go.mod":                 "module \"example.com/demo\" // ours\n",
		"main.go":                "package main\n\nimport (\n\t_ \"example.com/demo/internal/foo\"\n\t_ \"example.com/other\"\n)\n",
		"native.go":              "//go:build !wasip1\n\npackage main\n\n" + dials,
		"internal/foo/foo.go":    "package foo\n\nimport _ \"example.com/demo/internal/bar\"\n",
		"internal/bar/bar.go":    "package bar\n\nimport _ \"example.com/demo/internal/foo\"\n\n" + dials,
		"internal/bar/b_test.go": "package bar\n\n" + dials,
		"tools/tool.go":          "package tools\n\n" + dials,
		"src/wire.rs":            "use std::net::TcpStream;\n",
		"include/wire.h":         "#include <netdb.h>\n",
		"target/wire.rs":         "use std::net::TcpStream;\n",
		"other/plugin.yaml":      "", "other/main.c": "#include <netdb.h>\n",
	})
	code, stdout, stderr := clitest.Run(nil, "plugin", "vet", dir)
	want := dir + "/internal/bar/bar.go:7:9: net.Dial reaches no network in a guest: use sdk.Dial, or sdkhttp\n" +
		dir + "/include/wire.h:1:10: <netdb.h> reaches no network in a guest: use prober_dial\n" +
		dir + "/src/wire.rs:1:5: std::net reaches no network in a guest: use prober::net\n"
	if code != 1 || stdout != want {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", code, stdout, stderr, want)
	}
}

func TestPluginVetProcessThatDoesNotServe(t *testing.T) {
	for source, serves := range map[string]bool{
		"package main\n\nfunc main() {}\n": false,
		"package main\n\nimport _ \"github.com/daeace23/prober/sdk/process\"\n\nfunc main() {}\n":                    false,
		"package main\n\nimport p \"github.com/daeace23/prober/sdk/process\"\n\nfunc main() { p.Serve(nil, nil) }\n": true,
		"package main\n\nimport \"github.com/hashicorp/go-plugin\"\n\nfunc main() { plugin.Serve(nil) }\n":           true,
		"package main\n\nimport \"net\"\n\nfunc main() { process.Serve(nil, nil); net.Dial(\"tcp\", \"\") }\n":       false,
	} {
		dir := t.TempDir()
		clitest.WriteTree(t, dir, map[string]string{
			"plugin.yaml":    "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\nruntime: process\nconfig: {schema: {type: object}}\n",
			"demo_test.yaml": "", "go.mod": "module demo\n", "main.go": source,
		})
		want := dir + ": nothing calls process.Serve of sdk/process, so prober cannot start it\n"
		if serves {
			want = ""
		}
		if _, stdout, stderr := clitest.Run(nil, "plugin", "vet", dir); stdout != want || stderr != "" {
			t.Errorf("%s: %q, %q", source, stdout, stderr)
		}
	}
}
