package plugincmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/cli/clitest"
)

const netManifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo-1\nversion: 1.0.0\n" +
	"requests: [{capability: net, allow: [target, \"tcp://db:5432\", \"!10.0.0.0/8\"], reason: it asks}]\n"

// compiler is a fake compiler. It logs its arguments, one line per run, and writes a module. As rustc, it
// also prints the folder of a target's libraries.
const compiler = `#!/bin/sh
dir=$(dirname "$0")
case "$*" in
"--print target-libdir --target wasm32-wasip1") mkdir -p "$dir/lib"; : >"$dir/lib/libstd-0.rlib"; echo "$dir/lib"; exit ;;
--print*) exit 1 ;;
esac
echo "$*" >>"$dir/args"
while [ $# -gt 0 ]; do [ "$1" = -o ] && cp "$dir/module" "$2"; shift; done
`

// TestBuildRunsToolchains checks the arguments of each compiler. make test-e2e runs the real compilers.
func TestBuildRunsToolchains(t *testing.T) {
	for _, c := range []struct {
		variable string
		files    map[string]string
		want     string // OUT and SCRATCH are paths
	}{
		{"CLANG", map[string]string{"main.c": "", "parse.c": "", "prober-sdk/prober.h": ""},
			"--target=wasm32 -nostdlib -Wall -Wextra -Wl,--no-entry -Iprober-sdk -o OUT -Xclang -O2 main.c parse.c"},
		{"CLANG", map[string]string{"main.c": ""},
			"--target=wasm32 -nostdlib -Wall -Wextra -Wl,--no-entry -ISCRATCH/prober-sdk -o OUT -Xclang -O2 main.c"},
		{"RUSTC", map[string]string{"lib.rs": "", "prober-sdk/src/lib.rs": ""},
			"--edition 2021 --target wasm32-wasip1 -O --crate-type rlib --crate-name prober -o SCRATCH/libprober.rlib prober-sdk/src/lib.rs\n" +
				"--edition 2021 --target wasm32-wasip1 -O --crate-type cdylib --crate-name demo_1 --extern prober=SCRATCH/libprober.rlib -C strip=debuginfo -o OUT lib.rs"},
		{"RUSTC", map[string]string{"Cargo.toml": "", "src/lib.rs": "", "prober-sdk/src/lib.rs": ""}, // without cargo
			"--edition 2021 --target wasm32-wasip1 -O --crate-type rlib --crate-name prober -o SCRATCH/libprober.rlib prober-sdk/src/lib.rs\n" +
				"--edition 2021 --target wasm32-wasip1 -O --crate-type cdylib --crate-name demo_1 --extern prober=SCRATCH/libprober.rlib -C strip=debuginfo -o OUT src/lib.rs"},
		{"ASC", map[string]string{"index.ts": `import { dial } from "./prober-sdk/index";`},
			"index.ts -O --debug --runtime stub --use abort=prober-sdk/index/abort -o OUT"},
		{"ASC", map[string]string{"index.ts": `import { dial } from "prober";`, "plugin.yaml": netManifest + "stateful: true\n"},
			"index.ts -O --debug --runtime incremental --use abort=~lib/prober/index/abort -o OUT"},
		{"WAT2WASM", map[string]string{"other.wat": ""}, "--debug-names other.wat -o OUT"},
		{"WAT2WASM", map[string]string{"other.wat": "", "demo-1.wat": ""}, "--debug-names demo-1.wat -o OUT"},
		{"GO", map[string]string{"go.mod": ""}, "build -trimpath -buildmode=c-shared -o OUT ."},
		{"GO", map[string]string{"go.mod": "", "plugin.yaml": netManifest + "mode: command\n"}, "build -trimpath -o OUT ."},
		{"CLANG", map[string]string{"main.c": "", "prober-sdk/prober.h": "", "plugin.yaml": netManifest + "mode: command\n"},
			"--target=wasm32-wasi -Wall -Wextra -Iprober-sdk -o OUT -Xclang -O2 main.c"},
		{"RUSTC", map[string]string{"main.rs": "", "plugin.yaml": netManifest + "mode: command\n"},
			"--edition 2021 --target wasm32-wasip1 -O --crate-name demo_1 -C strip=debuginfo -o OUT main.rs"},
	} {
		dir, tools := t.TempDir(), t.TempDir()
		clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": netManifest})
		clitest.WriteTree(t, dir, c.files)
		clitest.WriteTree(t, tools, map[string]string{"compiler": compiler, "module": bareModule})
		t.Setenv(c.variable, filepath.Join(tools, "compiler"))
		code, stdout, stderr := clitest.Run(nil, "plugin", "build", dir)
		module := filepath.Join(dir, "demo-1.wasm")
		want := module + ": demo-1 1.0.0, 0.3 KiB, sha256:"
		if code != 0 || !strings.HasPrefix(stdout, want) ||
			!strings.HasSuffix(stdout, "\nimports prober_v1_net: close\nrequests net: target, tcp://db:5432, !10.0.0.0/8\nneeds the grants tcp://db:5432\n") {
			t.Errorf("%v: exit code %d\n%s%s", c.files, code, stdout, stderr)
			continue
		}
		args, err := os.ReadFile(filepath.Join(tools, "args"))
		if err != nil {
			t.Fatal(err)
		}
		_, out, _ := strings.Cut(string(args), " -o ")
		scratch := filepath.Dir(strings.Fields(out)[0])
		got := strings.ReplaceAll(strings.ReplaceAll(string(args), scratch+"/plugin.wasm", "OUT"), scratch, "SCRATCH")
		if got != c.want+"\n" {
			t.Errorf("%v: got\n%swant\n%s", c.files, got, c.want)
		}
		if _, err := os.Stat(scratch); err == nil {
			t.Errorf("%s is left", scratch)
		}
	}
}

// cargo is a fake cargo. It prints its arguments and RUSTC to stderr, and messages that name the modules in
// the folder MODULES.
const cargo = `#!/bin/sh
echo "$* with $RUSTC" >&2
echo '{"reason":"compiler-artifact","filenames":["/x/libprober.rlib"]}'
for module in "$MODULES"/*.wasm; do [ ! -e "$module" ] || echo "{\"reason\":\"compiler-artifact\",\"filenames\":[\"$module\"]}"; done
echo '{"reason":"build-finished","success":true}'
`

func TestBuildRunsCargoOfRustc(t *testing.T) {
	dir, tools := t.TempDir(), t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": netManifest, "Cargo.toml": "", "src/lib.rs": "",
		"command/plugin.yaml": netManifest + "mode: command\n", "command/Cargo.toml": "",
	})
	clitest.WriteTree(t, tools, map[string]string{
		"rustc": compiler, "cargo": cargo, "one/a.wasm": bareModule, "two/a.wasm": bareModule, "two/b.wasm": bareModule, "none/x": "",
	})
	rustc := filepath.Join(tools, "rustc")
	t.Setenv("RUSTC", rustc)
	args := " --target wasm32-wasip1 --message-format json-render-diagnostics with " + rustc + "\n"
	for _, c := range []struct {
		modules, dir   string
		code           int
		stdout, stderr string
	}{
		{"one", dir, 0, "/demo-1.wasm: demo-1 1.0.0, 0.3 KiB, sha256:", "build --release --lib" + args},
		{"one", dir + "/command", 0, "/demo-1.wasm: demo-1 1.0.0, 0.3 KiB, sha256:", "build --release --bins" + args},
		{"none", dir, 64, "", "/Cargo.toml: cargo built 0 modules, want 1\nprober: hint: a plugin is a library with crate-type"},
		{"two", dir, 64, "", "/Cargo.toml: cargo built 2 modules, want 1\n"},
	} {
		t.Setenv("MODULES", filepath.Join(tools, c.modules))
		code, stdout, stderr := clitest.Run(nil, "plugin", "build", c.dir)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s modules: exit code %d\n%s%s", c.modules, code, stdout, stderr)
		}
	}
}

// If a compiler fails, its own message is printed, and the previous module stays.
func TestBuildFails(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": netManifest, "main.c": "", "demo-1.wasm": "as it was",
		"tools/fails": "#!/bin/sh\necho 'main.c:3:1: error: no' >&2\nexit 1\n",
		"tools/empty": "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && : >\"$2\"; shift; done\n",
		"tools/links": "#!/bin/sh\n[ \"$*\" = --print-prog-name=wasm-ld ] && { echo no-such-ld; exit; }\nexit 1\n",
		"tools/rustc": "#!/bin/sh\necho /nowhere\n",
		"rust/lib.rs": "", "rust/plugin.yaml": netManifest,
		"tools/alone":      "#!/bin/sh\ncase $* in --print*) mkdir -p lib; : >lib/libstd-0.rlib; echo $PWD/lib; exit ;; esac\nexit 1\n",
		"crate/Cargo.toml": "", "crate/plugin.yaml": netManifest,
	})
	for _, c := range []struct {
		variable, tool, dir string
		code                int
		want                string
	}{
		{"CLANG", "fails", ".", 1, "main.c:3:1: error: no\nprober: error: " + dir + ": fails: exit status 1\n"},
		{"CLANG", "empty", ".", 1, "prober: error: " + dir + ": "},
		{"CLANG", "links", ".", 64, "has no wasm-ld to link with: links: exit status 1\nprober: hint: apt-get install lld\n"},
		{"CLANG", "nosuch", ".", 64, `tools/nosuch", and there is no such program` + "\nprober: hint: apt-get install clang lld, or name"},
		{"RUSTC", "rustc", "rust", 64, "tools/rustc has no standard library for wasm32-wasi or wasm32-wasip1\n" +
			"prober: hint: apt-get install rustc lld libstd-rust-dev-wasm32, or rustup target add wasm32-wasip1; RUSTC names another rustc\n"},
		{"RUSTC", "alone", "crate", 64, "there is no cargo for " + dir + "/tools/alone, and it fails alone: alone: exit status 1\n" +
			"prober: hint: apt-get install cargo, "},
	} {
		t.Setenv(c.variable, filepath.Join(dir, "tools", c.tool))
		code, _, stderr := clitest.Run(nil, "plugin", "build", filepath.Join(dir, c.dir))
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s", c.tool, code, stderr, c.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*demo-1*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "demo-1.wasm")); err != nil || string(text) != "as it was" {
		t.Errorf("the module is now %q, %v", text, err)
	}
}

// The error of a missing toolchain names it, and the package to install.
func TestBuildWithoutToolchains(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for marker, want := range map[string]string{
		"go.mod":   "go is not installed\nprober: hint: install Go 1.26 or later from https://go.dev/dl\n",
		"main.c":   "clang is not installed\nprober: hint: apt-get install clang lld, ",
		"index.ts": "asc is not installed\nprober: hint: npm install --prefix DIR assemblyscript@0.28, ",
		"a.wat":    "wat2wasm is not installed\nprober: hint: apt-get install wabt, ",
	} {
		dir := t.TempDir()
		clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": netManifest, marker: ""})
		code, _, stderr := clitest.Run(nil, "plugin", "build", dir)
		if want = strings.ReplaceAll(want, "DIR", dir); code != 64 || !strings.Contains(stderr, "prober: error: "+want) {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s", marker, code, stderr, want)
		}
	}
}

func TestBuildStopsOnSignal(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": netManifest, "main.c": "",
		"tools/clang": "#!/bin/sh\nsleep 60 & wait\n",
	})
	t.Setenv("CLANG", filepath.Join(dir, "tools/clang"))
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	start := time.Now()
	code, _, stderr := clitest.Run(signals, "plugin", "build", dir)
	if code != 1 || stderr != "prober: error: stopped by SIGINT\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestBuildProcessThatDoesNotServe(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\nruntime: process\n", "go.mod": "module demo\n",
		"tools/go": "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && cp program \"$2\"; shift; done\n",
	})
	t.Setenv("GO", filepath.Join(dir, "tools/go"))
	for program, want := range map[string]string{
		"#!/bin/sh\nexit 3\n":                "prober: error: " + dir + `: plugin "demo": `,
		"#!/bin/sh\nexec sleep 600\n":        "prober: error: " + dir + `: plugin "demo": `, // takes 5 s, the time to start
		"#!/bin/sh\necho '1|9|tcp|a|grpc'\n": "prober: error: " + dir + `: plugin "demo": `,
		"MZ":                                 "prober: warning: the program is for windows, so it was not started: whether it serves is not known\n",
	} {
		clitest.WriteTree(t, dir, map[string]string{"program": program, "prober-plugin-demo": "as it was"})
		code, _, stderr := clitest.Run(nil, "plugin", "build", dir)
		built, err := os.ReadFile(filepath.Join(dir, "prober-plugin-demo"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(stderr, want) {
			t.Errorf("%q: %q, want %q", program, stderr, want)
		}
		if program == "MZ" {
			if code != 0 || string(built) != program {
				t.Errorf("exit code %d, wrote %q", code, built)
			}
			continue
		}
		if code != 1 || string(built) != "as it was" || !strings.HasSuffix(stderr, "prober: hint: nothing was written: main must call process.Serve of sdk/process\n") {
			t.Errorf("%q: exit code %d, %q, %q", program, code, stderr, built)
		}
	}
}
