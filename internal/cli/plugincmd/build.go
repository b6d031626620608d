package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

func newBuild(env *command.Env) *cobra.Command {
	var runtime string
	c := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build the plugin of a folder, with its manifest inside",
		Long: "Build compiles the plugin of a folder with plugin.yaml and writes NAME.wasm there. If that\n" +
			"fails, it writes nothing. A source file decides the language:\n\n" +
			"  go.mod       Go               go             GO\n" +
			"  Cargo.toml   Rust             cargo, rustc   CARGO, RUSTC\n" +
			"  lib.rs       Rust             rustc          RUSTC\n" +
			"  main.c       C                clang          CLANG\n" +
			"  main.cpp     C++              clang          CLANG\n" +
			"  index.ts     AssemblyScript   asc            ASC\n" +
			"  *.wat        WAT              wat2wasm       WAT2WASM\n" +
			"  check.py     Python\n\n" +
			"A variable of the last column names another compiler. Where cargo is not installed, rustc\n" +
			"builds a crate that needs only the SDK. With \"mode: command\" in plugin.yaml it builds a WASI\n" +
			"program: in Rust from main.rs, in C and C++ with wasi-libc.\n\n" +
			"With \"runtime: process\" in plugin.yaml it builds a program, prober-plugin-NAME: in\n" +
			"Go for this machine, in Python an archive that python3 runs. It writes the manifest beside it.\n\n" +
			"It is an error if prober cannot load the module, or if a program does not serve within 5 s. Build\n" +
			"starts the module once, in the sandbox, and the program without one.",
		Example: "  prober plugin build demo\n  RUSTC=~/.cargo/bin/rustc prober plugin build",
		Args:    command.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			return buildPlugin(ctx, env, folderOf(args), plugin.Runtime(runtime))
		},
	}
	c.Flags().Var(command.OneOf(&runtime, string(plugin.Wasm), string(plugin.Process)), "runtime", "runtime to build for, instead of the one in plugin.yaml")
	return c
}

// folderOf returns the folder in the arguments, or the working folder.
func folderOf(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "."
}

// projectOf returns the folder of a project: path itself, or the folder of the module or plugin.yaml
// at path.
func projectOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	if filepath.Ext(path) == ".wasm" || plugin.IsProcess(filepath.Base(path)) || filepath.Base(path) == plugin.ManifestFile {
		return filepath.Dir(path)
	}
	return path
}

// readProject returns the manifest of the plugin in dir, and its text.
func readProject(dir string) (*plugin.Manifest, []byte, error) {
	path := filepath.Join(dir, "plugin.yaml")
	text, err := regular.Read(path, plugin.MaxManifest)
	if err != nil {
		return nil, nil, command.Usage("`prober plugin new` makes the folder of a plugin", "%w", err)
	}
	manifest, err := plugin.ParseManifest(path, text)
	if err != nil {
		return nil, nil, command.Usage("", "%w", err)
	}
	return manifest, text, nil
}

// buildPlugin writes the module or program of the plugin in dir. A runtime that is not empty
// replaces the one of the manifest.
func buildPlugin(ctx context.Context, env *command.Env, dir string, runtime plugin.Runtime) error {
	manifest, text, err := readProject(dir)
	if err != nil {
		return err
	}
	runtime = cmp.Or(runtime, manifest.Runtime, plugin.Wasm)
	if manifest.Runtime == plugin.Nagios {
		return command.Usage("`prober plugin test` runs its cases", "%s: its runtime is nagios: there is nothing to build", dir)
	}
	lang, err := languageOf(dir)
	if err != nil {
		return err
	}
	if runtime == plugin.Process && lang.name != langGo && lang.name != langPython {
		return command.Usage("build it with the tools of its language, as "+plugin.ProcessPrefix+manifest.Name+" with its manifest beside it",
			"%s: prober builds processes of Go and Python, not of %s", dir, lang.title)
	}
	scratch, err := os.MkdirTemp("", "prober-build-")
	if err != nil {
		return command.Failed(err)
	}
	defer os.RemoveAll(scratch)
	b := &building{
		env: env, dir: dir, name: manifest.Name, runtime: runtime, mode: manifest.Mode, stateful: manifest.Stateful, scratch: scratch,
	}
	err = lang.compile(b, ctx)
	if ctx.Err() != nil {
		return command.Failed(context.Cause(ctx))
	}
	if err != nil {
		if _, ok := errors.AsType[*command.Exit](err); ok {
			return err
		}
		return command.Failed(fmt.Errorf("%s: %w", dir, err))
	}
	built, err := os.ReadFile(b.out())
	if err != nil {
		return command.Failed(err)
	}
	text = withRuntime(text, runtime)
	manifest.Runtime = runtime
	if runtime == plugin.Process {
		if err := tryProgram(ctx, env, dir, built, manifest); err != nil {
			return err
		}
		return putProgram(env, dir, built, text, manifest)
	}
	return putModule(ctx, env, dir, built, text, manifest)
}

// startTimeout is the time limit for a built program to start serving.
const startTimeout = 5 * time.Second

// tryProgram starts a program of this platform once. It returns an error if the program does not
// serve.
func tryProgram(ctx context.Context, env *command.Env, dir string, code []byte, m *plugin.Manifest) error {
	if built := platformOf(code); !runsOn(built, oci.HostPlatform()) {
		env.Warn("the program is for %s, so it was not started: whether it serves is not known", strings.Trim(built.String(), "/"))
		return nil
	}
	loaded, err := process.Load(ctx, process.Config{Version: env.Version, StartTimeout: startTimeout}, plugin.Found{Manifest: m, Module: code})
	if ctx.Err() != nil {
		return command.Failed(context.Cause(ctx))
	}
	if err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("%s: %w", dir, err), Hint: "nothing was written: main must call process.Serve of sdk/process"}
	}
	return loaded.Close()
}

// putModule writes a module with its manifest inside, if the gate accepts it.
func putModule(ctx context.Context, env *command.Env, dir string, module, text []byte, m *plugin.Manifest) (err error) {
	if module, err = plugin.Embed(module, text); err != nil {
		return command.Failed(fmt.Errorf("%s: %w", dir, err))
	}
	if err := refuse(ctx, env, plugin.Found{Path: dir, Manifest: m, Module: module}, nothingWritten); err != nil {
		return err
	}
	out := filepath.Join(dir, m.Name+".wasm")
	if err := regular.ReplaceBytes(out, 0o644, module); err != nil {
		return command.Failed(err)
	}
	return printBuilt(env, out, module, m)
}

// putProgram writes a program with its manifest beside it.
func putProgram(env *command.Env, dir string, code, text []byte, m *plugin.Manifest) error {
	out := filepath.Join(dir, plugin.ProcessPrefix+m.Name)
	if err := errors.Join(regular.ReplaceBytes(out, 0o755, code), regular.ReplaceBytes(out+".yaml", 0o644, text)); err != nil {
		return command.Failed(err)
	}
	fmt.Fprintf(env.Stdout, "%s: %s %s, %s, %s\n", out, m.Name, m.Version, byteSize(uint64(len(code))), plugin.Digest(code))
	fmt.Fprintf(env.Stdout, "its manifest is %s.yaml\nit runs in no sandbox\n", out)
	return nil
}

// runtimeLine matches the runtime in a manifest.
var runtimeLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^runtime:.*$`) })

// withRuntime returns the text of a manifest with its runtime replaced.
func withRuntime(text []byte, runtime plugin.Runtime) []byte {
	return runtimeLine().ReplaceAll(text, []byte("runtime: "+runtime))
}

// building is one run of a toolchain.
type building struct {
	env      *command.Env
	dir      string // of the project
	name     string // of the plugin
	runtime  plugin.Runtime
	mode     plugin.Mode
	stateful bool
	scratch  string // a folder for temporary files
}

// out returns the path that the compiler writes to.
func (b *building) out() string { return filepath.Join(b.scratch, "plugin.wasm") }

// tools returns the paths of the installed candidates. An environment variable can replace the candidates by
// one program. If none is installed, the error has the hint.
func (b *building) tools(variable, hint string, candidates ...string) (found []string, err error) {
	named, _ := b.env.LookupEnv(variable)
	if named != "" {
		candidates = []string{named}
	}
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err == nil && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case named != "":
		return nil, command.Usage(hint, "%s is %q, and there is no such program", variable, named)
	default:
		return nil, command.Usage(hint, "%s is not installed", filepath.Base(candidates[0]))
	}
}

// tool returns the first of tools.
func (b *building) tool(variable, hint string, candidates ...string) (string, error) {
	found, err := b.tools(variable, hint, candidates...)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// command returns a command that runs in the folder of the project. Its process group, where the
// system has process groups, is killed when ctx ends.
func (b *building) command(ctx context.Context, tool string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir, cmd.SysProcAttr = b.dir, procgroup.Attr()
	cmd.Cancel = func() error { procgroup.Kill(cmd.Process.Pid); return nil }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a compiler, whose output goes to stderr.
func (b *building) run(ctx context.Context, environ []string, tool string, args ...string) error {
	return b.runTo(ctx, b.env.Stderr, environ, tool, args...)
}

// runTo runs a compiler, and writes its standard output to stdout.
func (b *building) runTo(ctx context.Context, stdout io.Writer, environ []string, tool string, args ...string) error {
	cmd := b.command(ctx, tool, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = stdout, b.env.Stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(tool), err)
	}
	return nil
}

// outputOf returns the output of a program.
func (b *building) outputOf(ctx context.Context, tool string, args ...string) (string, error) {
	text, err := b.command(ctx, tool, args...).Output()
	return strings.TrimSpace(string(text)), err
}

// printBuilt prints the size, imports and requests of the result.
func printBuilt(env *command.Env, path string, module []byte, m *plugin.Manifest) error {
	imports, err := wasmfile.Imports(module)
	if err != nil {
		return command.Failed(fmt.Errorf("%s: %w", path, err))
	}
	fmt.Fprintf(env.Stdout, "%s: %s %s, %s, %s\n", path, m.Name, m.Version, byteSize(uint64(len(module))), plugin.Digest(module))
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(env.Stdout, "imports %s: %s\n", name, strings.Join(imports[name], ", "))
	}
	for _, r := range m.Requests {
		fmt.Fprintf(env.Stdout, "requests %s: %s\n", r.Capability, strings.Join(r.Allow, ", "))
	}
	if grants := neededGrants(m); len(grants) > 0 {
		fmt.Fprintf(env.Stdout, "needs the grants %s\n", strings.Join(grants, ", "))
	} else {
		fmt.Fprintln(env.Stdout, "needs no grant beyond its target")
	}
	for _, problem := range vetImports(imports, m) {
		env.Warn("the module %s", problem)
	}
	return nil
}

// neededGrants returns the grants for all requests that are not optional. A target needs none.
func neededGrants(m *plugin.Manifest) (grants []string) {
	for _, r := range m.Requests {
		for _, pattern := range r.Patterns() {
			taken := pattern == "target" || strings.HasPrefix(pattern, "!") || slices.Contains(grants, pattern)
			if !r.Optional && !taken {
				grants = append(grants, pattern)
			}
		}
	}
	return grants
}

// byteSize formats a number of bytes.
func byteSize(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
