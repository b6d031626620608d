package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/plugin"
)

func newPluginBuild(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build the plugin of a folder, with its manifest inside",
		Long:  "Build compiles the Go program of a folder with plugin.yaml and writes NAME.wasm beside it.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			ctx, stop := env.interruptible(cmd.Context())
			defer stop()
			return env.buildPlugin(ctx, dir)
		},
	}
}

// buildPlugin writes the module of the plugin in dir.
func (env *Env) buildPlugin(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "plugin.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return usage("`prober plugin new` makes the folder of a plugin", "%w", err)
	}
	manifest, err := plugin.ParseManifest(path, text)
	if err != nil {
		return usage("", "%w", err)
	}
	if err := buildable(dir); err != nil {
		return err
	}
	module, err := env.compileGo(ctx, dir)
	if err != nil {
		return err
	}
	if module, err = plugin.Embed(module, text); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	out := filepath.Join(dir, manifest.Name+".wasm")
	if err := os.WriteFile(out, module, 0o644); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	return env.tellBuilt(out, module, manifest)
}

// buildable says what is wrong with a folder that holds no Go program.
func buildable(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return nil
	}
	for file, lang := range map[string]string{"Cargo.toml": "Rust", "package.json": "AssemblyScript", "*.c": "C", "*.wat": "WAT"} {
		if found, _ := filepath.Glob(filepath.Join(dir, file)); len(found) > 0 {
			return usage("build it with its own tools, and put plugin.yaml beside the module", "%s: this version of prober builds Go only, and this is %s", dir, lang)
		}
	}
	return usage("a plugin in Go is a module with plugin.yaml beside its go.mod", "%s: there is no go.mod", dir)
}

// compileGo returns the module of the Go program in dir.
func (env *Env) compileGo(ctx context.Context, dir string) ([]byte, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, usage("install Go 1.26 or later from https://go.dev/dl", "go is not installed: %w", err)
	}
	scratch, err := os.MkdirTemp("", "prober-build-")
	if err != nil {
		return nil, &exit{code: exitFailed, err: err}
	}
	defer os.RemoveAll(scratch)
	out := filepath.Join(scratch, "plugin.wasm")
	cmd := exec.CommandContext(ctx, tool, "build", "-trimpath", "-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	cmd.Stdout, cmd.Stderr = env.Stderr, env.Stderr
	if err := cmd.Run(); err != nil {
		return nil, &exit{code: exitFailed, err: fmt.Errorf("go build in %s: %w", dir, err)}
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return nil, &exit{code: exitFailed, err: err}
	}
	return module, nil
}

// tellBuilt says what was built: its size, what it imports, and what it asks for.
func (env *Env) tellBuilt(path string, module []byte, m *plugin.Manifest) error {
	imports, err := importsOf(module)
	if err != nil {
		return &exit{code: exitFailed, err: fmt.Errorf("%s: %w", path, err)}
	}
	fmt.Fprintf(env.Stdout, "%s: %s %s, %.1f MiB, %s\n", path, m.Name, m.Version, float64(len(module))/(1<<20), plugin.Digest(module))
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(env.Stdout, "imports %s: %s\n", name, strings.Join(imports[name], ", "))
	}
	for _, r := range m.Requests {
		fmt.Fprintf(env.Stdout, "asks for %s: %s\n", r.Capability, strings.Join(r.Allow, ", "))
	}
	for _, capability := range unasked(imports, m) {
		fmt.Fprintf(env.Stderr, "prober: warning: the module imports prober_v1_%s, and its manifest does not ask for %q\n", capability, capability)
	}
	return nil
}

// unasked returns the capabilities that a module imports and its manifest does not ask
// for.
func unasked(imports map[string][]string, m *plugin.Manifest) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		capability, ok := strings.CutPrefix(name, "prober_v1_")
		asks := func(r plugin.Request) bool { return r.Capability == capability }
		if ok && !slices.ContainsFunc(m.Requests, asks) {
			missing = append(missing, capability)
		}
	}
	return missing
}

// importsOf returns the functions that a module imports, by module.
func importsOf(module []byte) (map[string][]string, error) {
	sections, err := plugin.Sections(module)
	if err != nil {
		return nil, err
	}
	imports := make(map[string][]string)
	for _, s := range sections {
		if s.ID != importSection {
			continue
		}
		r := importReader{s.Body}
		for n := r.number(); n > 0 && r.rest != nil; n-- {
			from, name := r.text(), r.text()
			if r.skipType() {
				imports[from] = append(imports[from], name)
			}
		}
		if r.rest == nil {
			return nil, errors.New("the import section is cut off")
		}
	}
	return imports, nil
}

const importSection = 2

// importReader reads an import section. Its rest is nil once something was missing.
type importReader struct{ rest []byte }

func (r *importReader) number() (n uint64) {
	for i, b := range r.rest {
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
		if i == 4 {
			break
		}
	}
	r.rest = nil
	return 0
}

func (r *importReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// skipType reads over the type of an import and reports whether it is a function.
func (r *importReader) skipType() bool {
	switch kind := r.number(); kind {
	case 0: // function
		r.number()
		return r.rest != nil
	case 1, 2: // table, memory
		if kind == 1 {
			r.number() // type of its elements
		}
		if r.number()&1 == 1 {
			r.number()
		}
		r.number()
	case 3: // global
		r.number()
		r.number()
	}
	return false
}
