// Embedmanifest builds a manifest into a WebAssembly module, in place:
//
//	go run ./internal/embedmanifest plugin.yaml redis.wasm
package main

import (
	"fmt"
	"os"

	"github.com/daeace23/prober/plugin"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: embedmanifest PLUGIN.YAML MODULE.WASM")
		os.Exit(64)
	}
	if err := embed(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "embedmanifest:", err)
		os.Exit(1)
	}
}

func embed(manifestPath, modulePath string) error {
	manifest, err := os.ReadFile(manifestPath)
	if err != nil {
		return err
	}
	if _, err := plugin.ParseManifest(manifestPath, manifest); err != nil {
		return err
	}
	module, err := os.ReadFile(modulePath)
	if err != nil {
		return err
	}
	out, err := plugin.Embed(module, manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(modulePath, out, 0o644)
}
