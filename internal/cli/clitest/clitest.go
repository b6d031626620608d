// Package clitest runs prober's command lines in tests, and makes files for them.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
)

// Run runs a command line. Its environment has only the variables that name compilers.
func Run(signals <-chan os.Signal, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(command.Env{
		Args: args, LookupEnv: Toolchains, Version: "dev",
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Notify: func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} },
	})
	return code, out.String(), errs.String()
}

// Toolchains looks up the variables that name compilers. All others are unset.
func Toolchains(name string) (string, bool) {
	if slices.Contains([]string{"GO", "CLANG", "RUSTC", "ASC", "WAT2WASM"}, name) {
		return os.LookupEnv(name)
	}
	return "", false
}

// WriteTree writes files below dir, by their slash-separated paths.
func WriteTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// ModuleCode returns a module without a manifest that always returns one verdict.
func ModuleCode(verdict byte) string {
	return "\x00asm\x01\x00\x00\x00" +
		"\x01\x05\x01\x60\x00\x01\x7f" + // type 0: () -> i32
		"\x03\x02\x01\x00" + // one function of it
		"\x05\x03\x01\x00\x01" + // one page of memory
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" +
		"\x0a\x06\x01\x04\x00\x41" + string(rune(verdict)) + "\x0b" // i32.const
}

// Module returns a plugin with [Manifest] that always returns one verdict.
func Module(t *testing.T, verdict byte) string {
	t.Helper()
	return Embed(t, ModuleCode(verdict), Manifest)
}

// Embed returns a module with a manifest inside.
func Embed(t *testing.T, module, manifest string) string {
	t.Helper()
	out, err := plugin.Embed([]byte(module), []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Manifest is the manifest of a plugin called demo.
const Manifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"

// Cases are test cases of a plugin in demo.wasm: one that wants a failure, and one that wants a
// success.
const Cases = `apiVersion: prober.dev/v1
kind: PluginTest
plugin: ./demo.wasm
cases:
- name: it fails
  request: {target: {host: a, port: 1}}
  want: {result: failure}
- name: all is well
  request: {target: {host: a, port: 1}}
  want: {result: success}
`
