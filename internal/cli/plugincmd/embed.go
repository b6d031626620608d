package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

func newEmbed(env *command.Env) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "embed MODULE plugin.yaml [-o FILE|DIR]",
		Short: "Put a manifest into a module that other tools have built",
		Long: "Embed writes the manifest into the module, as its custom section \"prober.manifest\". It replaces\n" +
			"a manifest that is there. The file of the module is replaced atomically, and not at all if the\n" +
			"manifest is invalid or prober cannot load the module, which is started once, in the sandbox. With\n" +
			"-o it writes another file, NAME.wasm in a folder, or stdout.\n\n" +
			"From a component of WASI 0.2, embed takes the module that `wasm-tools component new` made it from,\n" +
			"and writes that, because prober runs modules only. The module may have imports of\n" +
			"sdk/wit/prober.wit and of WASI preview 1.\n\n" +
			"The new module has another digest, and needs a new signature.",
		Example: "  prober plugin embed target/wasm32-unknown-unknown/release/demo.wasm plugin.yaml -o .\n  prober plugin embed demo.wasm plugin.yaml",
		Args:    command.Arguments("MODULE", "plugin.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return embedManifest(cmd.Context(), env, args[0], args[1], out)
		},
	}
	command.FileFlag(c, &out, "o", "out", "", "file or folder to write to (default the file of the module); - writes to stdout")
	return c
}

// embedManifest writes the module from, with the manifest inside, to out.
func embedManifest(ctx context.Context, env *command.Env, from, manifest, out string) error {
	if isModule(manifest) {
		return command.Usage(fmt.Sprintf("`prober plugin embed %s %s`", manifest, from),
			"%s is a module: the first argument must be the module, and the second its manifest", manifest)
	}
	text, err := regular.Read(manifest, plugin.MaxManifest)
	if err != nil {
		return command.Usage("", "manifest: %w", err)
	}
	m, err := plugin.ParseManifest(manifest, text)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	if r := cmp.Or(m.Runtime, plugin.Wasm); r != plugin.Wasm {
		return command.Usage("", "%s: its runtime is %s, which is not the runtime of a module", manifest, r)
	}
	module, err := regular.Read(from, plugin.MaxModule)
	if err != nil {
		return command.Usage("", "module: %w", err)
	}
	if module, err = coreModule(env, from, module, out); err != nil {
		return err
	}
	if module, err = plugin.Embed(module, text); err != nil {
		return command.Usage("", "%s: %w", from, err)
	}
	if err := refuse(ctx, env, plugin.Found{Path: from, Manifest: m, Module: module}, nothingWritten); err != nil {
		return err
	}
	if out == "-" {
		_, err := env.Stdout.Write(module)
		return err
	}
	if out, err = embedded(from, out, m.Name); err != nil {
		return command.Usage("", "%w", err)
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(from); err == nil {
		mode = info.Mode().Perm()
	}
	if err := regular.ReplaceBytes(out, mode, module); err != nil {
		return command.Failed(err)
	}
	warnStaleSignatures(env, out)
	return printBuilt(env, out, module, m)
}

// coreModule returns the module in the file from, whose content is data, with the names of the contract. It takes
// the module out of a component, unless out is empty: the module must not replace the component.
func coreModule(env *command.Env, from string, data []byte, out string) ([]byte, error) {
	if wasmfile.IsComponent(data) {
		if out == "" {
			return nil, command.Usage(fmt.Sprintf("`prober plugin embed %s plugin.yaml -o FILE`", from), "%s is a component: name the file for its module with -o", from)
		}
		module, err := wasmfile.CoreModule(data)
		if err != nil {
			return nil, command.Usage("", "%s: %w", from, err)
		}
		fmt.Fprintf(env.Stderr, "prober: took the module out of the component %s: %d of %d bytes\n", from, len(module), len(data))
		data = module
	}
	module, err := wasmfile.FromWIT(data)
	if err != nil {
		return nil, command.Usage("", "%s: %w", from, err)
	}
	return module, nil
}

// isModule reports whether a file starts with the header of a module.
func isModule(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x00asm"
}

// embedded returns the path of the output: out, or else the file of the module. It resolves symbolic links.
func embedded(from, out, name string) (string, error) {
	out = cmp.Or(out, from)
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		out = filepath.Join(out, name+".wasm")
	}
	file, err := filepath.EvalSymlinks(out)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	return file, err
}

// warnStaleSignatures warns of signatures beside a module that are older than its change.
func warnStaleSignatures(env *command.Env, path string) {
	for _, file := range trust.Files(path) {
		if _, err := os.Stat(file); err == nil {
			env.Warn("%s signs the module as it was before: sign it again", file)
		}
	}
}
