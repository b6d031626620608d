package plugincmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
)

// cargoManifest is the file of a Rust project that cargo builds.
const cargoManifest = "Cargo.toml"

// compileRust runs cargo, or rustc alone for a project without Cargo.toml or where cargo is not installed.
func (b *building) compileRust(ctx context.Context) error {
	tool, target, err := b.rustc(ctx)
	if err != nil {
		return err
	}
	if !exists(filepath.Join(b.dir, cargoManifest)) {
		return b.runRustc(ctx, tool, target)
	}
	cargo, err := b.cargo(tool)
	if err != nil {
		return err
	}
	if cargo != "" {
		return b.runCargo(ctx, cargo, tool, target)
	}
	err = b.runRustc(ctx, tool, target)
	if err != nil && ctx.Err() == nil {
		return command.Usage("apt-get install cargo, which builds with other crates than the SDK; or name it in CARGO",
			"there is no cargo for %s, and it fails alone: %w", tool, err)
	}
	return err
}

// cargo returns the cargo that belongs to a rustc: the one in CARGO, the one beside rustc, or, for the
// rustc in PATH, the one in PATH. It returns "" if there is none.
func (b *building) cargo(rustc string) (string, error) {
	if named, _ := b.env.LookupEnv("CARGO"); named != "" {
		return b.tool("CARGO", "CARGO names a cargo that works with "+rustc)
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(rustc), "cargo")); err == nil {
		return path, nil
	}
	if inPath, err := exec.LookPath("rustc"); err == nil && inPath == rustc {
		if path, err := exec.LookPath("cargo"); err == nil {
			return path, nil
		}
	}
	return "", nil
}

// runCargo builds the crate, with rustc as the compiler.
func (b *building) runCargo(ctx context.Context, cargo, rustc, target string) error {
	kind := "--lib"
	if b.mode == plugin.Command {
		kind = "--bins"
	}
	var messages bytes.Buffer
	err := b.runTo(ctx, &messages, []string{"RUSTC=" + rustc}, cargo, "build", "--release", kind, "--target", target,
		"--message-format", "json-render-diagnostics")
	if err != nil {
		return err
	}
	modules, err := modulesOf(&messages)
	if err != nil {
		return fmt.Errorf("the messages of %s: %w", cargo, err)
	}
	if len(modules) != 1 {
		return command.Usage("a plugin is a library with crate-type = [\"cdylib\"], or with mode: command one program",
			"%s: cargo built %d modules, want 1", filepath.Join(b.dir, cargoManifest), len(modules))
	}
	module, err := os.ReadFile(modules[0])
	if err != nil {
		return err
	}
	return os.WriteFile(b.out(), module, 0o644)
}

// modulesOf returns the paths of the modules in the messages of cargo, which are JSON documents.
func modulesOf(messages io.Reader) (modules []string, err error) {
	for d := json.NewDecoder(messages); ; {
		var m struct{ Filenames []string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return modules, nil
		} else if err != nil {
			return nil, err
		}
		for _, name := range m.Filenames {
			if filepath.Ext(name) == ".wasm" {
				modules = append(modules, name)
			}
		}
	}
}

// runRustc runs rustc twice: for the SDK, and for the plugin. A program needs no SDK.
func (b *building) runRustc(ctx context.Context, tool, target string) error {
	if b.mode == plugin.Command {
		return b.run(ctx, nil, tool, "--edition", "2021", "--target", target, "-O", "--crate-name", rustName(b.name),
			"-C", "strip=debuginfo", "-o", b.out(), b.rustSource("main.rs"))
	}
	sdk, err := b.sdk(langRust)
	if err != nil {
		return err
	}
	crate := filepath.Join(b.scratch, "libprober.rlib")
	common := []string{"--edition", "2021", "--target", target, "-O"}
	err = b.run(ctx, nil, tool, append(slices.Clone(common), "--crate-type", "rlib", "--crate-name", "prober",
		"-o", crate, filepath.Join(sdk, "src", "lib.rs"))...)
	if err != nil {
		return err
	}
	return b.run(ctx, nil, tool, append(common, "--crate-type", "cdylib", "--crate-name", rustName(b.name),
		"--extern", "prober="+crate, "-C", "strip=debuginfo", "-o", b.out(), b.rustSource("lib.rs"))...)
}

// rustSource returns the path of a source file, in src as cargo has it or in the project itself.
func (b *building) rustSource(file string) string {
	if in := filepath.Join("src", file); exists(filepath.Join(b.dir, in)) {
		return in
	}
	return file
}

// rustName returns the name of a plugin as a Rust identifier.
func rustName(name string) string { return strings.ReplaceAll(crateName(name), "-", "_") }

// crateName returns the name of a plugin as the name of a crate, which begins with no digit.
func crateName(name string) string {
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

// rustTargets are the names of the target in different versions of rustc.
var rustTargets = []string{"wasm32-wasi", "wasm32-wasip1"}

// rustc returns the first rustc that has a standard library for WebAssembly, and its name of the target. The
// rustc in PATH often has none, but the distribution's has one.
func (b *building) rustc(ctx context.Context) (tool, target string, err error) {
	const hint = "apt-get install rustc lld libstd-rust-dev-wasm32, or rustup target add wasm32-wasip1; RUSTC names another rustc"
	tools, err := b.tools("RUSTC", hint, "rustc", "/usr/bin/rustc")
	if err != nil {
		return "", "", err
	}
	for _, tool := range tools {
		for _, target := range rustTargets {
			dir, err := b.outputOf(ctx, tool, "--print", "target-libdir", "--target", target)
			if ctx.Err() != nil {
				return "", "", ctx.Err()
			}
			if libraries, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "libstd-*.rlib")); err == nil && len(libraries) > 0 {
				return tool, target, nil
			}
		}
	}
	return "", "", command.Usage(hint, "%s has no standard library for %s", strings.Join(tools, " and "), strings.Join(rustTargets, " or "))
}
