package plugincmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// threeBytes is a module that traps unless its target sends three bytes at once, and then succeeds:
//
//	(module
//	 (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
//	 (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
//	 (memory (export "memory") 1)
//	 (func (export "probe") (result i32)
//	   (if (i32.ne (call $read (call $dial (i32.const 0) (i32.const 0) (i32.const -1)) (i32.const 0) (i32.const 100) (i32.const -1)) (i32.const 3))
//	     (then unreachable))
//	   (i32.const 0)))
const threeBytes = "" +
	"\x00asm\x01\x00\x00\x00\x01\x14\x03`\x03\x7f\x7f\x7f\x01\x7f`\x04\x7f\x7f\x7f\x7f\x01\x7f`\x00\x01\x7f\x02+\x02\x0dprober" +
	"_v1_net\x04dial\x00\x00\x0dprober_v1_net\x04read\x00\x01\x03\x02\x01\x02\x05" +
	"\x03\x01\x00\x01\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x02\x0a\x1e\x01\x1c\x00A\x00A\x00A\x7f\x10\x00A\x00A" +
	"\xe4\x00A\x7f\x10\x01A\x03G\x04@\x00\x0bA\x00\x0b"

const peerCase = `apiVersion: prober.dev/v1
kind: PluginTest
plugin: ./demo.wasm
cases:
- name: three bytes
  request: {target: {host: a, port: 1}}
  host: {net: [{dial: "tcp://a:1", script: [{send: {text: "OK\n"}}]}]}
  want: {result: success}
`

func TestFuzzSavesFaults(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	manifest := clitest.Manifest + "requests: [{capability: net, allow: [target]}]\n"
	clitest.WriteTree(t, dir, map[string]string{"demo.wasm": clitest.Embed(t, threeBytes, manifest), "demo_test.yaml": peerCase})
	cases := filepath.Join(dir, "demo_test.yaml")
	code, stdout, stderr := clitest.Run(nil, "plugin", "fuzz", cases, "--time", "300ms", "--seed", "7")
	saved, _ := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", "*_test.yaml"))
	if code != 1 || len(saved) == 0 || !strings.Contains(stdout, "the result is error(trap)") || !strings.Contains(stdout, "  saved as "+saved[0]+"\n") ||
		!regexp.MustCompile(`\n[0-9]+ variants in [0-9.]+m?s, [1-9] found\n$`).MatchString(stdout) || !strings.HasPrefix(stderr, "fuzz: seed 7\n") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = clitest.Run(nil, "plugin", "test", "--run", "three bytes", saved[0]); code != 1 || !strings.Contains(stdout, "0 passed, 1 failed") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestFuzzWrongUsage(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"demo.wasm": clitest.Module(t, 0), "demo_test.yaml": clitest.Cases,
		"missing_test.yaml": strings.Replace(clitest.Cases, "demo.wasm", "missing.wasm", 1),
		"process_test.yaml": strings.Replace(clitest.Cases, "demo.wasm", "prober-plugin-demo", 1),
	})
	t.Chdir(dir)
	for _, c := range []struct{ args, want string }{
		{"demo_test.yaml", "demo_test.yaml: no case that passes has peers that can be varied"},
		{"demo_test.yaml --time -1s", "--time -1s: must not be negative"},
		{"demo.yaml", "demo.yaml: no such file or directory"},
		{"missing_test.yaml", "missing.wasm: no such file or directory\nprober: hint: `prober plugin build` builds the plugin of a folder"},
		{"process_test.yaml", "process_test.yaml: fuzz needs a module, and prober-plugin-demo is a program"},
		{"demo.wasm demo_test.yaml more", "accepts between 1 and 2 arg(s), received 3"},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin", "fuzz"}, strings.Fields(c.args)...)...)
		if code != 64 || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %s", c.args, code, stdout, stderr, c.want)
		}
	}
}

// A signal ends fuzz normally: its exit code is about its findings.
func TestFuzzEndsAfterSignal(t *testing.T) {
	interruptedCache(t)
	dir := t.TempDir()
	manifest := clitest.Manifest + "requests: [{capability: net, allow: [target]}]\n"
	clitest.WriteTree(t, dir, map[string]string{"demo.wasm": clitest.Embed(t, threeBytes, manifest), "demo_test.yaml": peerCase})
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	code, stdout, stderr := clitest.Run(signals, "plugin", "fuzz", filepath.Join(dir, "demo_test.yaml"))
	if !strings.Contains(stdout, " variants in ") || (code == 0) != strings.HasSuffix(stdout, " 0 found\n") || code > 1 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
