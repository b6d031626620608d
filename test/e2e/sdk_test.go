//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readme returns the plugin in the README of an SDK, and the commands that build it.
func readme(t *testing.T, sdk, language string) (source string, commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../sdk", sdk, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		switch block[1] {
		case language:
			source = block[2]
		case "sh":
			commands = strings.Split(strings.TrimSpace(block[2]), "\n")
		}
	}
	if source == "" || len(commands) == 0 {
		t.Fatalf("the README of %s lacks a plugin or how to build it", sdk)
	}
	return source, commands
}

// sdkCopy returns a copy of the folder of an SDK, to build in.
func sdkCopy(t *testing.T, sdk string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), sdk)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../sdk", sdk))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func shell(t *testing.T, dir, command string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(cache,
		"prober/assemblyscript/node_modules/.bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

const greetingManifest = `apiVersion: prober.dev/v1
kind: Plugin
name: greeting
version: 0.1.0
requests:
- {capability: net, allow: [target], reason: to be greeted}
`

// greet puts a built plugin beside its manifest, and probes a server with it.
func greet(t *testing.T, module string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "greeting"), os.DirFS(filepath.Dir(module))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "greeting"), "plugin.yaml", greetingManifest)
	address := saying(t, "220 hello\r\n")
	for _, c := range []struct{ target, config, result, text string }{
		{address, `{}`, "success", "greeted, with "},
		{address, `{"greeting":"+OK"}`, "failure", "no greeting in "},
		{freeAddress(t), `{}`, "failure", "refused"},
	} {
		v, code := probePluginIn(t, dir, "greeting", c.target, c.config)
		want(t, v, code, c.result, c.text)
		if c.text != "refused" && (len(v.Metrics) != 1 || v.Metrics[0].Name != "greeting_bytes" || v.Metrics[0].Value < 9) {
			t.Errorf("got metrics %+v, want greeting_bytes of 9 or more", v.Metrics)
		}
	}
}

// TestSDKReadmesBuild builds the plugin in each SDK's README with the commands there, and probes with
// it.
func TestSDKReadmesBuild(t *testing.T) {
	t.Parallel()
	t.Run("C", func(t *testing.T) {
		source, commands := readme(t, "c", "c")
		for _, command := range commands { // one without a libc, one with wasi-libc
			dir := sdkCopy(t, "c")
			write(t, dir, "greeting.c", source)
			shell(t, dir, command+" -Wall -Wextra -Werror")
			greet(t, filepath.Join(dir, "greeting.wasm"))
		}
	})
	t.Run("Rust", func(t *testing.T) {
		source, commands := readme(t, "rust", "rust")
		for _, target := range []string{"wasm32-wasi", "wasm32-unknown-unknown"} {
			dir := sdkCopy(t, "rust")
			write(t, dir, "greeting.rs", source)
			for _, command := range commands {
				shell(t, dir, strings.Replace(command, "wasm32-wasi", target, 1)+" -D warnings")
			}
			greet(t, filepath.Join(dir, "greeting.wasm"))
		}
	})
	t.Run("AssemblyScript", func(t *testing.T) {
		source, commands := readme(t, "assemblyscript", "ts")
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "node_modules/prober"), os.DirFS("../../sdk/assemblyscript")); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "greeting.ts", source)
		for _, command := range commands {
			shell(t, dir, command)
		}
		greet(t, filepath.Join(dir, "greeting.wasm"))
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRustSDK runs the unit tests of the crate.
func TestRustSDK(t *testing.T) {
	t.Parallel()
	dir := sdkCopy(t, "rust")
	shell(t, dir, "/usr/bin/rustc --edition 2021 -D warnings --test -o tests src/lib.rs && ./tests -q")
}
