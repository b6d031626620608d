package plugincmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

// The languages that plugins are written in, as --lang and manifests spell them.
const (
	langGo             = "go"
	langRust           = "rust"
	langC              = "c"
	langCPP            = "cpp"
	langAssemblyScript = "assemblyscript"
	langWAT            = "wat"
	langPython         = "python"
	langShell          = "sh" // of Nagios checks, which are not built
)

// language defines how projects in a language are recognized and compiled.
type language struct {
	name    string
	title   string   // for messages
	markers []string // patterns of files; every project in the language has one
	compile func(b *building, ctx context.Context) error
}

func languages() []language {
	return []language{
		{langGo, "Go", []string{"go.mod"}, (*building).compileGo},
		{langRust, "Rust", []string{cargoManifest, "lib.rs", "main.rs"}, (*building).compileRust},
		{langC, "C", []string{"main.c"}, (*building).compileC},
		{langCPP, "C++", []string{"main.cpp", "main.cc"}, (*building).compileC},
		{langAssemblyScript, "AssemblyScript", []string{"index.ts"}, (*building).compileAssemblyScript},
		{langWAT, "WAT", []string{"*.wat"}, (*building).compileWAT},
		{langPython, "Python", []string{"check.py"}, (*building).compilePython},
	}
}

func languageNames() (names []string) {
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// languageOf returns the language of the project in dir.
func languageOf(dir string) (language, error) {
	var (
		found []language
		by    []string // the files that identified it
	)
	for _, l := range languages() {
		for _, marker := range l.markers {
			if files, _ := filepath.Glob(filepath.Join(escapeGlob(dir), marker)); len(files) > 0 {
				found, by = append(found, l), append(by, filepath.Base(files[0]))
				break
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return language{}, command.Usage("a plugin has one of go.mod, Cargo.toml, lib.rs, main.c, main.cpp, index.ts, check.py and a .wat file beside its plugin.yaml; a module that other tools have built needs no build",
			"%s: there is no source that prober knows how to build", dir)
	default:
		return language{}, command.Usage("a folder holds one plugin, in one language", "%s: %s says %s, and %s says %s",
			dir, by[0], found[0].title, by[1], found[1].title)
	}
}

// escapeGlob returns a pattern that matches path alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// compileGo runs the Go toolchain.
func (b *building) compileGo(ctx context.Context) error {
	tool, err := b.tool("GO", "install Go 1.26 or later from https://go.dev/dl", "go")
	if err != nil {
		return err
	}
	args := []string{"build", "-trimpath"}
	if b.runtime == plugin.Process {
		return b.run(ctx, nil, tool, append(args, "-o", b.out(), ".")...)
	}
	if b.mode == plugin.Reactor {
		args = append(args, "-buildmode=c-shared")
	}
	return b.run(ctx, []string{"GOOS=wasip1", "GOARCH=wasm"}, tool, append(args, "-o", b.out(), ".")...)
}

// compileC runs clang, for C and C++. Only a program, with mode: command, has a libc.
func (b *building) compileC(ctx context.Context) error {
	tool, err := b.tool("CLANG", "apt-get install clang lld, or name another clang in CLANG", "clang")
	if err != nil {
		return err
	}
	sdk, err := b.sdk(langC)
	if err != nil {
		return err
	}
	sources, plus, err := b.cSources()
	if err != nil {
		return err
	}
	args := []string{"--target=wasm32", "-nostdlib", "-Wall", "-Wextra", "-Wl,--no-entry", "-I" + sdk, "-o", b.out()}
	if b.mode == plugin.Command {
		args = []string{"--target=wasm32-wasi", "-Wall", "-Wextra", "-I" + sdk, "-o", b.out()}
	}
	if plus { // there is no library of C++
		args = append(args, "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
	}
	// With the driver's -O, clang runs wasm-opt from PATH on the module, which strips the names of functions.
	// This option is for the compiler only.
	args = append(args, "-Xclang", "-O2")
	err = b.run(ctx, nil, tool, append(args, sources...)...)
	if err != nil && ctx.Err() == nil && !b.linksWasm(ctx, tool) {
		return command.Usage("apt-get install lld", "%s has no wasm-ld to link with: %w", tool, err)
	}
	return err
}

// cSources returns the names of the sources in C and C++, and whether any is in C++.
func (b *building) cSources() (sources []string, plus bool, err error) {
	for _, pattern := range []string{"*.c", "*.cpp", "*.cc"} {
		files, err := filepath.Glob(filepath.Join(escapeGlob(b.dir), pattern))
		if err != nil {
			return nil, false, err
		}
		plus = plus || pattern != "*.c" && len(files) > 0
		for _, file := range files {
			sources = append(sources, filepath.Base(file))
		}
	}
	return sources, plus, nil
}

// linksWasm reports whether clang finds its linker.
func (b *building) linksWasm(ctx context.Context, clang string) bool {
	name, err := b.outputOf(ctx, clang, "--print-prog-name=wasm-ld")
	_, missing := exec.LookPath(name)
	return err != nil || missing == nil
}

// compileAssemblyScript runs asc. --debug keeps the names of functions, for the stack of a trap.
func (b *building) compileAssemblyScript(ctx context.Context) error {
	local := filepath.Join(b.dir, "node_modules", ".bin", "asc")
	hint := fmt.Sprintf("npm install --prefix %s assemblyscript@0.28, or name another asc in ASC", b.dir)
	tool, err := b.tool("ASC", hint, local, "asc")
	if err != nil {
		return err
	}
	abort, err := b.abortPath()
	if err != nil {
		return err
	}
	modules, err := b.nodeModules()
	if err != nil {
		return err
	}
	args := []string{"--path", modules, "-o", b.out()}
	configured := exists(filepath.Join(b.dir, "asconfig.json"))
	if !configured {
		args = append([]string{"index.ts", "-O", "--debug", "--use", "abort=" + abort}, args...)
	}
	switch {
	case b.stateful:
		args = append(args, "--runtime", "incremental")
	case !configured:
		args = append(args, "--runtime", "stub") // never frees: the host restores memory
	}
	return b.run(ctx, nil, tool, args...)
}

// nodeModules returns a folder with the SDK as the package prober, which is used where npm has not installed
// it.
func (b *building) nodeModules() (string, error) {
	dir := filepath.Join(b.scratch, "modules")
	sdk, err := b.sdk(langAssemblyScript)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(sdk) {
		sdk = filepath.Join(b.dir, sdk)
	}
	return dir, os.CopyFS(filepath.Join(dir, "prober"), os.DirFS(sdk))
}

// abortPath returns the path of abort in the SDK that index.ts imports. It replaces an import that
// prober does not provide.
func (b *building) abortPath() (string, error) {
	source, err := regular.Read(filepath.Join(b.dir, "index.ts"), maxSource)
	if err != nil {
		return "", err
	}
	for _, from := range strings.Split(string(source), "from \"")[1:] {
		path, _, _ := strings.Cut(from, "\"")
		switch {
		case path == "prober":
			return "~lib/prober/index/abort", nil
		case strings.HasPrefix(path, ".") && strings.HasSuffix(path, "/index"):
			return strings.TrimPrefix(path, "./") + "/abort", nil
		}
	}
	return "", command.Usage(`import it with: from "prober"`, "%s: index.ts does not import the SDK", b.dir)
}

// compileWAT runs wat2wasm.
func (b *building) compileWAT(ctx context.Context) error {
	tool, err := b.tool("WAT2WASM", "apt-get install wabt, or name another wat2wasm in WAT2WASM", "wat2wasm")
	if err != nil {
		return err
	}
	source := b.name + ".wat"
	if _, err := os.Stat(filepath.Join(b.dir, source)); err != nil {
		files, _ := filepath.Glob(filepath.Join(escapeGlob(b.dir), "*.wat"))
		if len(files) != 1 {
			return command.Usage("name the one to build like the plugin", "%s: there are several .wat files, and no %s", b.dir, source)
		}
		source = filepath.Base(files[0])
	}
	return b.run(ctx, nil, tool, "--debug-names", source, "-o", b.out())
}

// sdk returns a folder with the SDK of a language: the project's, or else a copy of the SDK in prober.
func (b *building) sdk(lang string) (string, error) {
	if info, err := os.Stat(filepath.Join(b.dir, sdkFolder)); err == nil && info.IsDir() {
		return sdkFolder, nil
	}
	files, err := prober.SDK(lang)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.scratch, sdkFolder)
	return dir, writeFiles(dir, files)
}
